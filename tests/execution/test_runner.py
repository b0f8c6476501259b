import pytest
from django.db import transaction

from django_jobs.execution.immediate import InlineAttempt
from django_jobs.execution.runner import run_handler
from django_jobs.handlers import registry
from django_jobs.models import Job
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
