import asyncio
import datetime as dt
import logging
import threading

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy

from django_jobs.exceptions import JobCancelled, JobFailed, LeaseLost
from django_jobs.execution import Partial, immediate
from django_jobs.execution.immediate import run_job
from django_jobs.handlers import registry
from django_jobs.models import Asset, Job
from django_jobs.services import (
    cancel_job,
    create_job,
    create_jobs,
    mark_completed,
    mark_failed,
    mark_partial,
    retry_job,
)
from django_jobs.testing import make_job
from tests.execution.surroundings import everywhere
from tests.naming import readable

at_commit = pytest.mark.django_db(transaction=True)


class CustomBaseError(BaseException):
    pass


class UnreadableError(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class StubbornError(BaseException):
    def __str__(self):
        raise SystemExit("no text")


class KeywordError(Exception):
    def __init__(self, *, code):
        super().__init__(f"code {code}")


def raising(error):
    def work(job):
        raise error

    return work


def log_of(job):
    return [(entry.from_status, entry.to_status) for entry in job.transitions.order_by("id")]


RAISED = {
    "Exception": (ValueError("boom"), "ValueError: boom"),
    "blank": (ValueError(), "ValueError"),
    "SystemExit": (SystemExit(3), "SystemExit: 3"),
    "exit without a code": (SystemExit(), "SystemExit"),
    "KeyboardInterrupt": (KeyboardInterrupt(), "KeyboardInterrupt"),
    "GeneratorExit": (GeneratorExit(), "GeneratorExit"),
    "StopIteration": (StopIteration("x"), "StopIteration: x"),
    "CancelledError": (asyncio.CancelledError(), "CancelledError"),
    "BaseException": (CustomBaseError("odd"), "CustomBaseError: odd"),
    "unreadable": (UnreadableError(), "UnreadableError: (its text cannot be read)"),
    "unreadable, stubborn": (StubbornError(), "StubbornError: (its text cannot be read)"),
    "keyword-only": (KeywordError(code=5), "KeywordError: code 5"),
    "an exception as text": (ValueError(KeyError), "ValueError: <class 'KeyError'>"),
    "lazy validation": (ValidationError(gettext_lazy("No")), "ValidationError: No"),
    "validation by field": (
        ValidationError({"name": [gettext_lazy("No"), "odd"]}),
        "ValidationError: name: No odd",
    ),
    "NUL": (ValueError("x\x00y"), "ValueError: x\ufffdy"),
    "surrogate": (ValueError("\ud800"), "ValueError: \ufffd"),
    "secret": (ValueError("password=hunter2"), "ValueError: password=***"),
    "group": (ExceptionGroup("two", [ValueError("a")]), "ExceptionGroup: two (1 sub-exception)"),
    "database": (OperationalError("gone"), "OperationalError: gone"),
    "of ours": (LeaseLost("mine"), "LeaseLost: mine"),
}


# -- whatever a handler raises -----------------------------------------------------------------


@pytest.mark.parametrize(("error", "message"), RAISED.values(), ids=RAISED.keys())
@everywhere
def test_a_handler_may_raise_anything(run, error, message):
    job = run(raising(error))

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert job.error_message == message
    assert (job.progress, job.result, job.attempt) == (0, None, 1)
    assert log_of(job) == [("", "queued"), ("queued", "processing"), ("processing", "failed")]


@everywhere
def test_locks_and_functions_may_be_in_what_is_raised(run):
    job = run(raising(ValueError(threading.Lock(), lambda: None)))

    assert job.status == "failed"
    assert job.error_message.startswith("ValueError: (<unlocked _thread.lock object")


@everywhere
def test_a_handler_may_never_come_to_the_bottom(run):
    def work(job):
        return work(job)

    job = run(work)

    assert job.status == "failed"
    assert job.error_message.startswith("RecursionError: maximum recursion depth exceeded")


@at_commit
def test_the_traceback_is_in_the_log_for_staff(run):
    def work(job):
        raise ValueError("boom")

    entry = run(work).transitions.order_by("id").last()

    assert (entry.code, entry.message) == ("handler_error", "ValueError: boom")
    assert "Traceback" in entry.detail and 'raise ValueError("boom")' in entry.detail


@at_commit
def test_a_long_message_is_cut(run):
    job = run(raising(ValueError("x" * 10_000)))

    assert len(job.error_message) == 4000
    assert job.error_message.endswith("[…]")


@at_commit
@pytest.mark.parametrize("error", [JobCancelled(), JobCancelled("x")], ids=readable)
def test_a_handler_that_gives_way_to_a_request_is_cancelled(run, error):
    def work(job):
        cancel_job(job.id, actor=None, reason="enough")
        job.raise_if_cancelled()

    job = run(work)

    assert (job.status, job.failure_code) == ("failed", "cancelled")


@at_commit
def test_a_handler_that_takes_no_arguments_fails(run):
    def work():
        pass

    job = run(work)

    assert job.status == "failed"
    assert "takes 0 positional arguments but 1 was given" in job.error_message


# -- what a handler returns --------------------------------------------------------------------


@pytest.mark.parametrize("result", [None, {}, {"a": [1, None]}, "text", 0, [], False], ids=readable)
@everywhere
def test_what_a_handler_returns_is_the_result(run, result):
    job = run(lambda job: result)

    assert (job.status, job.progress, job.result) == ("completed", 100, result)
    assert (job.error_message, job.failure_code) == ("", "")


@everywhere
def test_a_handler_may_return_a_part(run):
    job = run(lambda job: Partial({"a": 1}, "some were odd"))

    assert (job.status, job.progress, job.result) == ("partial", 100, {"a": 1})
    assert (job.error_message, job.failure_code) == ("some were odd", "some_items_failed")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (
            {"rows": [0, 1, 2, {"price": float("nan")}]},
            "result.rows[3].price: NaN is not valid JSON",
        ),
        ({"t": "a\x00b"}, "result.t: a NUL character cannot be stored"),
        ({1, 2}, "result: a set cannot be stored as JSON"),
        ({"a": b""}, "result.a: a bytes cannot be stored as JSON"),
        (["x" * (1024 * 1024)], "result: 1048580 bytes of JSON are more than the 1048576 allowed"),
        ({"a": 10**5000}, "result.a: an integer of more than 4300 digits cannot be stored"),
        (object, "result: a type cannot be stored as JSON"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
@pytest.mark.parametrize("wrap", [lambda result: result, Partial], ids=["result", "Partial"])
@everywhere
def test_a_result_that_cannot_be_stored_fails_the_job_and_its_place_is_named(
    run, result, text, wrap
):
    job = run(lambda job: wrap(result))

    assert (job.status, job.failure_code, job.result) == ("failed", "invalid_result", None)
    assert job.error_message == text


@at_commit
def test_a_result_that_cannot_be_stored_is_not_tried_again(run):
    calls = []
    job = run(lambda job: calls.append(1) or {1, 2}, max_attempts=3)

    assert (job.status, len(calls)) == ("failed", 1)


def generator():
    yield 1


async def asynchronous_generator():
    yield 1


@pytest.mark.parametrize("make", [generator, asynchronous_generator])
@everywhere
def test_a_handler_that_returns_a_generator_fails(run, make):
    job = run(lambda job: make())

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert "the handler returned a generator: its body has not run" in job.error_message


# -- parameters --------------------------------------------------------------------------------


@at_commit
def test_parameters_that_are_no_longer_valid_fail_the_job(user, handler):
    from rest_framework import serializers

    class Size(serializers.Serializer):
        width = serializers.IntegerField()

    name = handler(lambda job: None, parameters=Size, max_attempts=3)
    job = make_job(user, job_type=name, parameters={"width": "wide"})

    run_job(job.pk, "default")

    job.refresh_from_db()
    assert (job.status, job.failure_code, job.attempt) == ("failed", "invalid_parameters", 1)
    assert "width" in job.error_message and "A valid integer is required." in job.error_message
    assert "ErrorDetail" not in job.error_message


@at_commit
@pytest.mark.parametrize("parameters", [[], "a", 1, False], ids=readable)
def test_a_row_without_named_parameters_fails(user, handler, parameters):
    job = make_job(user, job_type=handler(lambda job: None), parameters=parameters)

    run_job(job.pk, "default")

    job.refresh_from_db()
    assert (job.status, job.failure_code) == ("failed", "invalid_parameters")


# -- attempts ----------------------------------------------------------------------------------


@everywhere
def test_a_handler_that_fails_is_tried_again_at_once(run):
    attempts = []

    def work(job):
        attempts.append((job.attempt, job.max_attempts))
        if job.attempt < 3:
            raise ValueError(f"try {job.attempt}")
        return "at last"

    job = run(work, max_attempts=5, retry_delay=3600)

    assert attempts == [(1, 5), (2, 5), (3, 5)]
    assert (job.status, job.result, job.attempt) == ("completed", "at last", 3)
    assert (job.error_message, job.failure_code) == ("", "")
    messages = job.transitions.order_by("id").values_list("message", flat=True)
    assert [text for text in messages if text] == ["ValueError: try 1", "ValueError: try 2"]


@everywhere
def test_the_last_attempt_decides(run):
    job = run(raising(ValueError("boom")), max_attempts=3)

    assert (job.status, job.failure_code, job.attempt) == ("failed", "handler_error", 3)
    assert log_of(job)[1:] == [
        ("queued", "processing"),
        *[("processing", "processing")] * 4,
        ("processing", "failed"),
    ]


@at_commit
def test_each_attempt_begins_at_nothing(run):
    seen = []

    def work(job):
        row = Job.objects.get(pk=job.id)
        seen.append((row.progress, row.progress_message, row.items_failed))
        job.update_progress(50, "half")
        with job.item("a"):
            raise ValueError
        raise ValueError

    job = run(work, max_attempts=2)

    assert seen == [(0, "", 0)] * 2
    assert (job.progress, job.progress_message, job.items_failed) == (50, "half", 1)


@at_commit
@pytest.mark.parametrize(("retry", "attempts"), [(False, 1), (True, 3)])
def test_a_job_that_is_failed_on_purpose_is_tried_again_only_if_told(run, retry, attempts):
    job = run(raising(JobFailed("out of paper", retry=retry)), max_attempts=3)

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert job.error_message == "out of paper"
    assert job.attempt == attempts


@at_commit
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The job failed."),
        ("  ", "The job failed because of an error in its handler."),
        (gettext_lazy("No"), "No"),
    ],
)
def test_a_job_that_is_failed_without_a_text_gets_a_sentence(run, text, message):
    assert run(raising(JobFailed(text))).error_message == message


@at_commit
def test_a_request_to_cancel_prevents_another_attempt(run):
    def work(job):
        cancel_job(job.id, actor=None, reason="enough")
        raise ValueError("boom")

    job = run(work, max_attempts=3)

    assert (job.status, job.failure_code, job.attempt) == ("failed", "cancelled", 1)
    assert job.error_message == "The job was cancelled: enough"


@at_commit
def test_a_job_that_is_asked_to_stop_may_still_end_well(run):
    job = run(lambda job: cancel_job(job.id, actor=None).pk and "done")

    assert (job.status, job.result) == ("completed", "done")


# -- a handler that decides itself -------------------------------------------------------------

DECISIONS = {
    "failed": lambda job: mark_failed(job.id, "by hand"),
    "partial": lambda job: mark_partial(job.id, {"by": "hand"}, "by hand"),
    "completed": lambda job: mark_completed(job.id, {"by": "hand"}),
}
decisions = pytest.mark.parametrize(("status", "decide"), DECISIONS.items(), ids=DECISIONS.keys())


@decisions
@pytest.mark.parametrize("afterwards", ["return", "raise", "Partial", "JobFailed", "exit"])
@everywhere
def test_what_a_handler_decided_itself_stays(run, status, decide, afterwards, caplog):
    kept = []

    def work(job):
        decide(job)
        kept.append(Job.objects.filter(pk=job.id).values().get())
        if afterwards == "raise":
            raise ValueError("too late")
        if afterwards == "JobFailed":
            raise JobFailed("too late")
        if afterwards == "exit":
            raise SystemExit
        return Partial(None, "too late") if afterwards == "Partial" else "too late"

    with caplog.at_level(logging.INFO, "django_jobs.execution"):
        job = run(work, max_attempts=3)

    assert Job.objects.filter(pk=job.pk).values().get() == kept[0]
    assert job.status == status
    assert log_of(job)[-1] == ("processing", status)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert str(job.pk) in caplog.text


@decisions
@at_commit
def test_nothing_is_written_for_a_job_that_has_ended(run, status, decide, caplog):
    raised = []

    def work(job):
        decide(job)
        before = Job.objects.filter(pk=job.id).values().get()
        job.update_progress(70, "too late")
        for save in (
            lambda: job.save_asset("a", b"", "text"),
            lambda: job.link_asset("a", "https://x.org", "page"),
        ):
            with pytest.raises(LeaseLost):
                save()
            raised.append(1)
        assert Job.objects.filter(pk=job.id).values().get() == before

    job = run(work)

    assert raised == [1, 1]
    assert job.status == status
    assert Asset.objects.count() == 0


@at_commit
@pytest.mark.parametrize("ending", ["return", "raise"])
def test_a_job_that_is_deleted_meanwhile_stays_deleted(user, handler, ending):
    def work(job):
        Job.objects.filter(pk=job.id).delete()
        job.update_progress(50)
        if ending == "raise":
            raise ValueError("boom")

    create_job(user, handler(work, max_attempts=3))

    assert Job.objects.count() == 0


@at_commit
def test_a_job_whose_user_is_deleted_meanwhile_stays_deleted(user, handler):
    create_job(user, handler(lambda job: job.user.delete() and None))

    assert Job.objects.count() == get_user_model().objects.count() == 0


# -- async handlers ----------------------------------------------------------------------------


@everywhere
def test_an_async_handler_runs_to_its_end(run):
    async def work(job):
        await asyncio.sleep(0)
        return {"attempt": job.attempt}

    job = run(work)

    assert (job.status, job.result) == ("completed", {"attempt": 1})


@everywhere
def test_an_async_handler_uses_the_database(run, user):
    async def work(job):
        keys = [str(found.pk) async for found in get_user_model().objects.all()]
        await sync_to_async(make_job)(user)
        return {"keys": keys, "jobs": await Job.objects.acount()}

    job = run(work)

    assert (job.error_message, job.result) == ("", {"keys": [str(user.pk)], "jobs": 2})
    assert Job.objects.count() == 2


@everywhere
def test_an_async_handler_reports_and_saves(run):
    async def work(job):
        job.update_progress(20, "begun")
        for number in job.track(range(4), "counting"):
            with job.item(number):
                if number == 2:
                    raise ValueError("odd")
        await job.asave_asset("a.txt", b"hello", "text")
        await job.alink_asset("b", "https://x.org", "page")
        assert job.cancel_requested is False
        job.raise_if_cancelled()
        return "done"

    job = run(work)

    assert job.error_message == "1 of 4 items failed.\n2: ValueError: odd"
    assert (job.status, job.result, job.progress_message) == ("partial", "done", "counting")
    assert (job.items_total, job.items_failed) == (4, 1)
    assert sorted(asset.name for asset in job.assets.all()) == ["a.txt", "b"]


@everywhere
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("boom"), "ValueError: boom"),
        (asyncio.CancelledError(), "CancelledError"),
        (CustomBaseError("odd"), "CustomBaseError: odd"),
        (GeneratorExit(), "GeneratorExit"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (StopIteration("x"), "RuntimeError: coroutine raised StopIteration"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_async_handler_may_raise_anything(run, error, message):
    async def work(job):
        await asyncio.sleep(0)
        raise error

    job = run(work)

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert job.error_message == message


@everywhere
def test_an_async_handler_may_be_cancelled_from_inside(run):
    async def work(job):
        task = asyncio.current_task()
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.Event().wait()

    job = run(work)

    assert (job.status, job.error_message) == ("failed", "CancelledError")


@at_commit
def test_what_an_async_handler_leaves_running_is_ended(run):
    ended = []

    async def forever():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def work(job):
        work.task = asyncio.create_task(forever())
        await asyncio.sleep(0)

    job = run(work)

    assert (job.status, ended) == ("completed", [True])


@at_commit
def test_a_plain_function_may_return_a_coroutine(run):
    async def work():
        return "done"

    assert run(lambda job: work()).result == "done"


@at_commit
def test_async_handlers_are_tried_again_too(run):
    async def work(job):
        if job.attempt == 1:
            raise ValueError
        return job.attempt

    assert run(work, max_attempts=2).result == 2


# -- when it runs ------------------------------------------------------------------------------


@at_commit
def test_a_job_runs_at_the_commit_and_not_before(user, handler):
    calls = []
    name = handler(lambda job: calls.append(job.id))

    with transaction.atomic():
        job = create_job(user, name)
        assert calls == []

    assert calls == [job.pk]


@at_commit
def test_a_job_whose_order_is_rolled_back_never_runs(user, handler):
    calls = []
    name = handler(lambda job: calls.append(job.id))

    with pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        create_job(user, name)
        1 / 0  # noqa: B018
    with transaction.atomic(), pytest.raises(ZeroDivisionError), transaction.atomic():  # noqa: PT012
        create_job(user, name)
        1 / 0  # noqa: B018

    assert calls == []
    assert Job.objects.count() == 0


@at_commit
def test_several_jobs_run_one_after_the_other_and_none_hinders_the_next(user, handler):
    calls = []

    def work(job):
        calls.append(job.parameters["n"])
        if job.parameters["n"] == 1:
            raise SystemExit

    create_jobs(user, handler(work), [{"n": n} for n in range(3)])

    assert calls == [0, 1, 2]
    assert list(Job.objects.order_by("id").values_list("status", flat=True)) == [
        "completed",
        "failed",
        "completed",
    ]


@at_commit
@pytest.mark.parametrize("key", [None, "once"])
def test_what_comes_back_is_the_job_as_it_ended(user, handler, key):
    name = handler(lambda job: {"n": job.parameters["n"]})

    job = create_job(user, name, {"n": 1}, idempotency_key=key)
    many = create_jobs(user, name, [{"n": 2}, {"n": 3}])

    assert [(each.status, each.result) for each in [job, *many]] == [
        ("completed", {"n": 1}),
        ("completed", {"n": 2}),
        ("completed", {"n": 3}),
    ]
    assert not job.found_by_key


@at_commit
def test_a_retry_comes_back_as_it_ended(user, handler):
    failed = create_job(user, handler(raising(ValueError("x"))))

    again = retry_job(failed.pk, actor=user)

    assert (again.retry_of, again.status, again.error_message) == (
        failed,
        "failed",
        "ValueError: x",
    )


@at_commit
def test_a_job_that_its_handler_deletes_comes_back_as_it_was_ordered(user, handler):
    def work(job):
        Job.objects.filter(pk=job.id).delete()

    job = create_job(user, handler(work))

    assert job.status == "queued"
    assert not Job.objects.exists()


@at_commit
def test_inside_of_a_transaction_a_job_comes_back_queued(user, handler):
    with transaction.atomic():
        assert create_job(user, handler(lambda job: None)).status == "queued"


@at_commit
def test_a_job_for_later_waits(user, handler):
    job = create_job(user, handler(lambda job: None), run_at=timezone.now() + dt.timedelta(hours=1))

    job.refresh_from_db()
    assert (job.status, job.attempt) == ("queued", 0)


@at_commit
def test_a_job_of_the_past_runs_now(user, handler):
    job = create_job(user, handler(lambda job: None), run_at=timezone.now() - dt.timedelta(hours=1))

    job.refresh_from_db()
    assert job.status == "completed"


@at_commit
def test_a_job_that_something_else_drives_waits_for_it(user, external_type):
    job = create_job(user, external_type)

    job.refresh_from_db()
    assert job.status == "queued"


@at_commit
def test_with_another_engine_nothing_runs_here(user, handler, settings):
    settings.DJANGO_JOBS = {"ENGINE": "django_q"}
    calls = []

    create_job(user, handler(lambda job: calls.append(1)))

    assert calls == []


@at_commit
def test_a_handler_may_order_more_jobs(user, handler):
    calls = []
    child_type = handler(lambda job: calls.append(job.parameters["n"]) or job.parameters["n"])

    def parent(job):
        children = [create_job(job.user, child_type, {"n": n}) for n in range(3)]
        return [Job.objects.get(pk=child.pk).result for child in children]

    job = create_job(user, handler(parent))

    job.refresh_from_db()
    assert (job.status, job.result) == ("completed", [0, 1, 2])
    assert calls == [0, 1, 2]


@everywhere
def test_jobs_that_a_handler_orders_in_its_transaction_run_after_it(run, handler, user):
    order = []
    child_type = handler(lambda job: order.append("child"))

    def parent(job):
        with transaction.atomic():
            create_job(user, child_type)
            order.append("parent")

    run(parent)

    assert order == ["parent", "child"]
    assert set(Job.objects.values_list("status", flat=True)) == {"completed"}


@at_commit
def test_jobs_may_order_jobs_for_a_while(user, handler):
    def countdown(job):
        if job.parameters["n"]:
            create_job(job.user, job.job_type, {"n": job.parameters["n"] - 1})

    create_job(user, handler(countdown), {"n": 10})

    assert Job.objects.filter(status="completed").count() == 11


# -- run_job itself ----------------------------------------------------------------------------


@at_commit
@pytest.mark.parametrize("status", ["processing", "completed", "partial", "failed"])
def test_a_job_that_is_running_or_has_ended_is_not_run_again(user, handler, status):
    calls = []
    name = handler(lambda job: calls.append(1))
    job = make_job(user, status, job_type=name)
    before = Job.objects.filter(pk=job.pk).values().get()

    for _ in range(3):
        run_job(job.pk, "default")

    assert calls == []
    assert Job.objects.filter(pk=job.pk).values().get() == before


@at_commit
def test_a_job_between_attempts_goes_on(user, handler):
    job = make_job(
        user,
        "processing",
        worker="host/machine/1/1/abcd",
        max_attempts=2,
        job_type=handler(lambda job: job.attempt),
    )
    job.postpone(delay=60, code="worker_lost", message="")
    job.save()

    run_job(job.pk, "default")

    job.refresh_from_db()
    assert (job.status, job.result) == ("completed", 2)


@at_commit
def test_a_job_that_is_not_there_is_nothing_to_run(user):
    job = make_job(user)
    job_id = job.pk
    job.delete()

    run_job(job_id, "default")


@at_commit
def test_a_job_of_a_type_that_is_gone_waits(user, handler):
    job = make_job(user, job_type=handler(lambda job: None))
    registry.remove(job.job_type)

    run_job(job.pk, "default")

    job.refresh_from_db()
    assert job.status == "queued"


@at_commit
def test_a_job_that_somebody_else_claims_at_the_same_moment_is_theirs(
    user, handler, monkeypatch, caplog
):
    calls = []
    job = make_job(user, job_type=handler(lambda job: calls.append(1)))
    start = Job.start

    def late(mine, **options):
        monkeypatch.setattr(Job, "start", start)
        other = Job.objects.get(pk=job.pk)
        other.start(worker="host/machine/1/1/abcd", lease=30)
        other.save()
        start(mine, **options)

    monkeypatch.setattr(Job, "start", late)

    run_job(job.pk, "default")

    assert calls == []
    assert Job.objects.get(pk=job.pk).worker == "host/machine/1/1/abcd"


@at_commit
def test_a_database_that_is_away_is_logged_and_not_raised(user, handler, monkeypatch, caplog):
    job = make_job(user, job_type=handler(lambda job: None))

    def away(*args, **options):
        raise OperationalError("gone")

    monkeypatch.setattr(immediate.persistence, "update", away)

    run_job(job.pk, "default")

    assert f"job {job.pk}: the database is away" in caplog.text


# -- what is seen meanwhile --------------------------------------------------------------------


@at_commit
def test_progress_can_be_watched_from_outside(run, monkeypatch):
    monkeypatch.setattr(immediate, "FLUSH_EVERY", 0)
    seen = []

    def work(job):
        for percent in (10, 40, 80):
            job.update_progress(percent, f"at {percent}")
            row = Job.objects.get(pk=job.id)
            seen.append((row.progress, row.progress_message))

    run(work)

    assert seen == [(10, "at 10"), (40, "at 40"), (80, "at 80")]


@at_commit
def test_many_reports_cost_few_statements(run, monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(immediate, "FLUSH_EVERY", 3600)

    def work(job):
        for number in range(10_000):
            job.update_progress(number / 100)

    with django_assert_max_num_queries(30):
        job = run(work)

    assert job.status == "completed"


@everywhere
def test_a_report_from_another_thread_opens_no_other_connection(run):
    opened = []

    def report(job):
        job.update_progress(70, "from afar")
        opened.append(connection.connection)
        opened.append(job.cancel_requested)

    def work(job):
        thread = threading.Thread(target=report, args=[job])
        thread.start()
        thread.join()

    job = run(work)

    assert opened == [None, False]
    assert (job.status, job.progress_message) == ("completed", "from afar")


@everywhere
def test_the_last_report_is_kept(run):
    def work(job):
        job.update_progress(10, "first")
        job.update_progress(60, "last")
        raise ValueError

    job = run(work)

    assert (job.progress, job.progress_message) == (60, "last")


@at_commit
def test_reports_from_a_broken_transaction_do_not_break_the_handler(run):
    def work(job):
        with transaction.atomic():
            transaction.set_rollback(True)
            job.update_progress(50, "half")
        return "done"

    job = run(work)

    assert (job.status, job.result, job.progress_message) == ("completed", "done", "half")


@at_commit
def test_the_row_says_who_runs_it_and_until_when(run):
    seen = []

    def work(job):
        row = Job.objects.get(pk=job.id)
        seen.append((row.status, row.attempt, row.worker != "", row.due_at > row.started_at))
        assert row.run_deadline_at == job.deadline

    run(work, timeout=60)

    assert seen == [("processing", 1, True, True)]


@at_commit
def test_a_job_without_limit_has_no_deadline(run):
    seen = []
    run(lambda job: seen.append(job.deadline), timeout=None)

    assert seen == [None]


@at_commit
def test_the_connection_is_not_closed(run):
    def work(job):
        work.connection = connection.connection

    run(work)

    assert connection.connection is work.connection
