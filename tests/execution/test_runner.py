import json
from contextlib import contextmanager

import pytest
from django.core.files.storage import storages
from django.db import transaction

from django_jobs.exceptions import JobTimedOut
from django_jobs.execution.immediate import InlineAttempt
from django_jobs.execution.runner import run_handler
from django_jobs.handlers import registry
from django_jobs.models import Asset, Job
from django_jobs.services.fencing import Fence, current_fence
from django_jobs.testing import make_job

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def outcome_of(user, handler):
    """Run a function as a handler and return the outcome; nothing of it is written."""

    def outcome_of(function, parameters=None, **options):
        job = make_job(
            user,
            "processing",
            worker="host/machine/1/1/abcd",
            job_type=handler(function, **options),
            parameters=parameters or {},
        )
        return run_handler(job, InlineAttempt(job, "default"), "default")

    return outcome_of


def test_what_a_handler_returns_is_the_outcome(outcome_of):
    outcome = outcome_of(lambda job: {"a": job.parameters["a"]}, {"a": 1})

    assert (outcome.code, outcome.result) == (None, {"a": 1})


def test_what_a_handler_raises_is_the_outcome(outcome_of):
    def work(job):
        raise KeyboardInterrupt

    outcome = outcome_of(work)

    assert (outcome.code, outcome.message) == ("handler_error", "KeyboardInterrupt")
    assert outcome.is_repeatable


def test_nothing_is_written_by_running(outcome_of):
    outcome_of(lambda job: "result")

    job = Job.objects.get()
    assert (job.status, job.result, job.transitions.count()) == ("processing", None, 2)


def test_inside_the_handler_the_services_know_whose_it_is(outcome_of):
    seen = []
    outcome_of(lambda job: seen.append(current_fence.get()))

    assert seen == [Fence.of(Job.objects.get())]
    assert current_fence.get() is None


def test_in_a_handler_of_a_handler_too(outcome_of):
    seen = []

    def inner(job):
        seen.append(current_fence.get().job_id)

    def outer(job):
        seen.append(current_fence.get().job_id)
        outcome_of(inner)
        seen.append(current_fence.get().job_id)

    outcome_of(outer)

    first, second = Job.objects.order_by("id").values_list("pk", flat=True)
    assert seen == [first, second, first]


def test_a_coroutine_is_run_to_its_end_and_knows_whose_it_is(outcome_of):
    async def work(job):
        return str(current_fence.get().job_id)

    assert outcome_of(work).result == str(Job.objects.get().pk)


def test_any_awaitable_is_awaited(outcome_of):
    class Awaitable:
        def __await__(self):
            return "result"
            yield

    assert outcome_of(lambda job: Awaitable()).result == "result"


def test_a_transaction_left_open_may_be_tried_again(outcome_of):
    outcome = outcome_of(lambda job: transaction.atomic().__enter__() and None)

    assert outcome.code == "handler_error"
    assert "left a transaction open" in outcome.message
    assert outcome.is_repeatable


@pytest.mark.parametrize("gone", ["type", "handler"])
def test_a_type_without_a_handler_is_an_outcome_too(user, external_type, handler, gone):
    name = external_type if gone == "handler" else handler(lambda job: None)
    job = make_job(user, "processing", worker="host/machine/1/1/abcd", job_type=name)
    if gone == "type":
        registry.remove(name)

    outcome = run_handler(job, InlineAttempt(job, "default"), "default")

    assert outcome.code is not None
    assert "UnknownJobType" in outcome.message


# -- the list of failed items ------------------------------------------------------------------


def many_fail(job):
    with job.item("good"):
        pass
    for number in range(101):
        with job.item(f"item {number}"):
            raise ValueError("odd")
    return "result"


def test_the_list_of_many_failed_items_is_an_asset(outcome_of):
    outcome = outcome_of(many_fail)

    job = Job.objects.get()
    [asset] = job.assets.all()
    assert (outcome.code, outcome.result) == ("some_items_failed", "result")
    assert (asset.name, asset.asset_type) == ("failed_items.jsonl", "failed_items")
    assert (asset.content_type, asset.attempt) == ("application/x-ndjson", job.attempt)
    with storages[asset.storage].open(asset.storage_path) as file:
        lines = [json.loads(line) for line in file]
    assert lines == [{"name": f"item {n}", "error": "ValueError: odd"} for n in range(101)]


@pytest.mark.parametrize("error", [OSError("no storage"), KeyboardInterrupt(), JobTimedOut("late")])
def test_a_list_that_cannot_be_stored_does_not_cost_the_outcome(
    outcome_of, monkeypatch, caplog, error
):
    def save(*args, **options):
        raise error

    monkeypatch.setattr("django.core.files.storage.InMemoryStorage.save", save)

    outcome = outcome_of(many_fail)

    assert (outcome.code, outcome.result) == ("some_items_failed", "result")
    assert "the list of its failed items is not stored" in caplog.text
    assert not Job.objects.get().assets.exists()


def test_the_list_is_stored_where_the_handler_can_be_interrupted(user, handler):
    job = make_job(user, "processing", worker="h/m/1/1/a", job_type=handler(many_fail))
    attempt = InlineAttempt(job, "default")
    bodies = []

    @contextmanager
    def body():
        bodies.append(Asset.objects.count())
        yield
        bodies.append(Asset.objects.count())

    attempt.body = body
    run_handler(job, attempt, "default")

    assert bodies == [0, 0, 0, 1]


def test_a_handler_that_fails_has_no_list(outcome_of):
    def work(job):
        many_fail(job)
        raise OSError("out of paper")

    assert outcome_of(work).code == "handler_error"
    assert not Job.objects.get().assets.exists()


def test_a_handler_whose_work_is_rolled_back_has_no_list(outcome_of):
    def work(job):
        transaction.set_autocommit(False)
        return many_fail(job)

    assert outcome_of(work).code == "handler_error"
    assert not Job.objects.get().assets.exists()


@pytest.mark.parametrize("names", [None, ["a", "b"]])
def test_a_handler_knows_which_items_it_is_about(user, handler, names):
    seen = []
    name = handler(lambda job: seen.append(job.failed_items), retry_failed_items=True)
    job = make_job(user, "processing", worker="h/m/1/1/a", job_type=name, items_to_retry=names)

    run_handler(job, InlineAttempt(job, "default"), "default")

    assert seen == [names]


def test_a_type_that_no_longer_heeds_failed_items_does_not_do_all_again(user, handler):
    calls = []
    name = handler(lambda job: calls.append(1))
    job = make_job(user, "processing", worker="h/m/1/1/a", job_type=name, items_to_retry=["a"])

    outcome = run_handler(job, InlineAttempt(job, "default"), "default")

    assert (outcome.code, calls) == ("handler_error", [])
    assert outcome.message == f"The type {name} cannot retry the failed items alone."
    assert not outcome.is_repeatable
