import inspect
import logging
import math
import uuid

import pytest

from django_jobs.exceptions import (
    InvalidResult,
    InvalidStateTransitionError,
    JobNotFound,
    LeaseLost,
    StaleJob,
)
from django_jobs.handlers import register_job_type
from django_jobs.models import FailureCode, Job, JobStatus, persistence
from django_jobs.services import (
    create_asset,
    create_job,
    get_job,
    get_job_assets,
    lifecycle,
    mark_completed,
    mark_failed,
    mark_partial,
    transition_status,
    update_progress,
)
from django_jobs.states import VALID_TRANSITIONS
from django_jobs.testing import make_job
from tests.naming import readable

pytestmark = pytest.mark.django_db

VERBS = {
    "mark_completed": lambda job_id: mark_completed(job_id),
    "mark_partial": lambda job_id: mark_partial(job_id),
    "mark_failed": lambda job_id: mark_failed(job_id, "x"),
    "transition_status": lambda job_id: transition_status(job_id, "failed"),
}
verbs = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS.keys())


# -- the worker of the specification -----------------------------------------------------------


@pytest.fixture
def image_type():
    return register_job_type("image").name


def process_job(job_id, upload):
    """The specification's own worker."""
    try:
        transition_status(job_id, JobStatus.PROCESSING, progress=0)
        job = Job.objects.get(pk=job_id)
        update_progress(job_id, 25)
        first = {"prompt": job.parameters["prompt"]}
        update_progress(job_id, 50)
        second = str(first).encode()
        update_progress(job_id, 75)
        url = upload(second)
        create_asset(
            job_id, job.user, job.job_type, url, f"{job.user_id}/{job_id}/result.png", len(second)
        )
        mark_completed(job_id, {"assetCount": 1})
    except Exception as error:
        logging.getLogger(__name__).info("job %s failed", job_id, exc_info=True)
        mark_failed(job_id, str(error))


def test_the_worker_of_the_specification_completes_its_job(user, image_type):
    job = create_job(user, image_type, {"prompt": "a cat"})

    process_job(job.pk, upload=lambda content: "https://cdn.example/result.png")

    job = get_job(job.pk, user)
    assert (job.status, job.progress, job.result) == ("completed", 100, {"assetCount": 1})
    assert (job.error_message, job.failure_code) == ("", "")
    assert job.completed_at >= job.started_at >= job.created_at
    (asset,) = get_job_assets(job.pk, user)
    assert (asset.name, asset.asset_type, asset.file_size) == ("result.png", "image", 19)
    assert asset.url == "https://cdn.example/result.png"
    assert asset.storage_path == f"{user.pk}/{job.pk}/result.png"
    assert [entry.to_status for entry in job.transitions.order_by("id")] == [
        "queued",
        "processing",
        "completed",
    ]


def test_the_worker_of_the_specification_fails_its_job(user, image_type):
    def upload(content):
        raise OSError("the bucket is full")

    job = create_job(user, image_type, {"prompt": "a cat"})

    process_job(job.pk, upload)

    job = get_job(job.pk, user)
    assert (job.status, job.progress, job.result) == ("failed", 75, None)
    assert (job.error_message, job.failure_code) == ("the bucket is full", "handler_error")
    assert job.completed_at is not None
    assert get_job_assets(job.pk, user) == []


def test_the_worker_of_the_specification_fails_a_job_without_its_parameters(user, image_type):
    job = create_job(user, image_type)

    process_job(job.pk, upload=lambda content: "")

    assert get_job(job.pk, user).error_message == "'prompt'"


# -- all pairs of states -----------------------------------------------------------------------


@pytest.mark.parametrize("target", JobStatus)
@pytest.mark.parametrize("current", JobStatus)
def test_only_legal_steps_are_taken(user, current, target, nothing_written):
    job = make_job(user, current)

    if target in VALID_TRANSITIONS[current]:
        moved = transition_status(job.pk, target)
        assert moved.status == target == Job.objects.get(pk=job.pk).status
        assert job.transitions.order_by("id").last().to_status == target
    elif current == target == JobStatus.PROCESSING:
        assert transition_status(job.pk, target).status == "processing"  # an update of progress
    else:
        with nothing_written(), pytest.raises(InvalidStateTransitionError) as raised:
            transition_status(job.pk, target)
        assert str(raised.value) == f"Cannot transition from '{current}' to '{target}'"


@pytest.mark.parametrize("current", ["completed", "partial", "failed", "queued"])
@verbs
def test_a_job_that_is_not_running_cannot_end(user, verb, current, nothing_written):
    job = make_job(user, current)

    with nothing_written(), pytest.raises(InvalidStateTransitionError):
        verb(job.pk)


@pytest.mark.parametrize(
    "target", ["", "COMPLETED", "done", None, 1, b"failed", "x" * 5000], ids=readable
)
def test_an_unknown_state_is_refused(user, target, nothing_written):
    job = make_job(user, "processing")

    with nothing_written(), pytest.raises(ValueError, match="is not a valid JobStatus"):
        transition_status(job.pk, target)


def test_a_state_may_be_given_by_its_value(user):
    assert transition_status(make_job(user).pk, "processing").status == JobStatus.PROCESSING


# -- what a step writes ------------------------------------------------------------------------


def test_processing_opens_the_first_attempt_for_an_outside_driver(user):
    job = transition_status(make_job(user).pk, "processing", progress=7)

    job.refresh_from_db()
    assert (job.attempt, job.max_attempts, job.progress) == (1, 1, 7)
    assert job.worker.startswith("external:")
    assert job.started_at is not None
    assert job.due_at > job.started_at


def test_the_attempt_of_an_outside_driver_is_the_last(user):
    job = make_job(user, max_attempts=3)

    assert transition_status(job.pk, "processing").max_attempts == 1


def test_processing_again_is_an_update_of_the_progress(driven_job):
    job = transition_status(driven_job.pk, "processing", progress=40)

    assert (job.status, job.attempt, job.progress) == ("processing", 1, 40)
    assert job.transitions.count() == 2


def test_processing_again_without_a_progress_leaves_it(driven_job):
    update_progress(driven_job.pk, 40)

    assert transition_status(driven_job.pk, "processing").progress == 40


def test_completed_has_a_result_and_no_error(driven_job):
    job = mark_completed(driven_job.pk, {"rows": 3})

    job.refresh_from_db()
    assert (job.status, job.progress, job.result) == ("completed", 100, {"rows": 3})
    assert (job.error_message, job.failure_code, job.due_at) == ("", "", None)
    assert job.completed_at == job.updated_at


@pytest.mark.parametrize("result", [None, {}, [], 0, False, "", {"a": None}], ids=readable)
def test_any_json_is_a_result(driven_job, result):
    assert mark_completed(driven_job.pk, result).result == result
    assert Job.objects.get(pk=driven_job.pk).result == result


def test_partial_has_a_result_and_an_error(driven_job):
    job = mark_partial(driven_job.pk, {"rows": 3}, "two rows were odd")

    job.refresh_from_db()
    assert (job.status, job.progress, job.result) == ("partial", 100, {"rows": 3})
    assert (job.error_message, job.failure_code) == ("two rows were odd", "some_items_failed")


def test_failed_has_an_error_and_no_result_and_keeps_its_progress(driven_job):
    update_progress(driven_job.pk, 30)
    job = mark_failed(driven_job.pk, "out of paper")

    job.refresh_from_db()
    assert (job.status, job.progress, job.result) == ("failed", 30, None)
    assert (job.error_message, job.failure_code) == ("out of paper", "handler_error")


@pytest.mark.parametrize("code", FailureCode)
@pytest.mark.parametrize("message", ["", "  ", None])
def test_a_failure_without_a_message_gets_the_sentence_of_its_code(user, code, message):
    job = mark_failed(make_job(user, "processing").pk, message, failure_code=code)

    job.refresh_from_db()
    assert (job.failure_code, job.error_message) == (code, code.label)


def test_a_partial_job_without_a_message_gets_a_sentence(driven_job):
    assert mark_partial(driven_job.pk).error_message == "Some items of the job failed."


def test_a_message_is_cleaned_cut_and_redacted(driven_job):
    job = mark_failed(driven_job.pk, "  a\x00 password=hunter2 " + "x" * 5000)

    job.refresh_from_db()
    assert job.error_message.startswith("a\ufffd password=*** xxx")
    assert len(job.error_message) == 4000


@pytest.mark.parametrize("progress", [0, 30, 100])
def test_a_failure_may_say_how_far_it_came(driven_job, progress):
    job = transition_status(driven_job.pk, "failed", progress=progress)

    assert Job.objects.get(pk=job.pk).progress == progress


def test_a_failure_does_not_take_progress_back(driven_job):
    update_progress(driven_job.pk, 30)

    assert transition_status(driven_job.pk, "failed", progress=10).progress == 30


def test_the_actor_of_a_step_is_logged(user, other_user):
    job = make_job(user)
    transition_status(job.pk, "processing", actor=other_user)
    transition_status(job.pk, "failed", error_message="no", actor=user)

    log = [(entry.to_status, entry.actor_id) for entry in job.transitions.order_by("id")]
    assert log[1:] == [("processing", other_user.pk), ("failed", user.pk)]


def test_a_step_is_one_update_and_one_line_of_the_log(driven_job, django_assert_num_queries):
    with django_assert_num_queries(5) as captured:  # SELECT, and the two of the savepoint
        mark_completed(driven_job.pk, {"a": 1})

    words = [query["sql"].split()[0] for query in captured.captured_queries]
    assert [word for word in words if word not in ("SAVEPOINT", "RELEASE")] == [
        "SELECT",
        "UPDATE",
        "INSERT",
    ]


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("job_id", ["x", "", None, 1, uuid.UUID(int=0)], ids=readable)
@verbs
def test_an_unknown_job_is_not_found(verb, job_id):
    with pytest.raises(JobNotFound):
        verb(job_id)


@pytest.mark.parametrize(
    ("progress", "error"),
    [("50", TypeError), (True, TypeError), ([], TypeError), (101, ValueError), (-1, ValueError),
     (math.nan, ValueError), (math.inf, ValueError)],
    ids=readable,
)  # fmt: skip
@pytest.mark.parametrize("target", ["processing", "completed", "partial", "failed"])
def test_what_is_no_percentage_is_refused(user, target, progress, error, nothing_written):
    job = make_job(user, "queued" if target == "processing" else "processing")

    with nothing_written(), pytest.raises(error, match="progress must be a number from 0 to 100"):
        transition_status(job.pk, target, progress=progress)


@pytest.mark.parametrize("target", ["completed", "partial"])
@pytest.mark.parametrize("progress", [0, 99, 99.9])
def test_what_is_done_is_at_100(driven_job, target, progress, nothing_written):
    with nothing_written(), pytest.raises(ValueError, match=f"that is {target} is 100"):
        transition_status(driven_job.pk, target, progress=progress)


@pytest.mark.parametrize("target", ["completed", "partial"])
def test_the_specification_s_progress_of_100_may_be_given(driven_job, target):
    assert transition_status(driven_job.pk, target, progress=100).progress == 100


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("queued", {"result": 1}),
        ("processing", {"result": {}}),
        ("processing", {"error_message": "x"}),
        ("processing", {"failure_code": "cancelled"}),
        ("completed", {"error_message": ""}),
        ("completed", {"failure_code": "cancelled"}),
        ("partial", {"failure_code": "some_items_failed"}),
        ("failed", {"result": {}}),
    ],
    ids=readable,
)
def test_an_option_that_does_not_go_with_the_state_is_refused(
    driven_job, target, options, nothing_written
):
    (name,) = options
    message = f"{name} cannot be given with the status {target}"
    with nothing_written(), pytest.raises(ValueError, match=message):
        transition_status(driven_job.pk, target, **options)


@pytest.mark.parametrize("code", ["", "because", "HANDLER_ERROR", 1, "x" * 5000], ids=readable)
def test_an_unknown_failure_code_is_refused(driven_job, code, nothing_written):
    with nothing_written(), pytest.raises(ValueError, match="is not a valid FailureCode"):
        mark_failed(driven_job.pk, "x", failure_code=code)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"rows": [0, 1, 2, {"price": math.nan}]}, "result.rows[3].price: NaN is not valid JSON"),
        ({"a": "\x00"}, "result.a: a NUL character cannot be stored"),
        ({1, 2}, "result: a set cannot be stored as JSON"),
        ({"a": 10**5000}, "result.a: an integer of more than 4300 digits cannot be stored"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("verb", [mark_completed, mark_partial])
def test_a_result_that_cannot_be_stored_is_refused_and_the_job_goes_on(
    driven_job, verb, result, text, nothing_written
):
    with nothing_written(), pytest.raises(InvalidResult) as raised:
        verb(driven_job.pk, result)

    assert str(raised.value) == text
    assert mark_completed(driven_job.pk, "something else").status == "completed"


def test_the_size_of_a_result_is_a_setting(driven_job, settings, nothing_written):
    settings.DJANGO_JOBS = {"MAX_RESULT_BYTES": 10}

    with nothing_written(), pytest.raises(InvalidResult, match="11 bytes of JSON are more than"):
        mark_completed(driven_job.pk, "x" * 9)

    assert mark_completed(driven_job.pk, "x" * 8).result == "x" * 8


# -- who may write -----------------------------------------------------------------------------


@verbs
def test_a_job_that_one_of_our_workers_holds_is_refused(held_job, verb, nothing_written):
    with nothing_written(), pytest.raises(LeaseLost, match="held by one of our workers"):
        verb(held_job.pk)


def test_naming_the_open_attempt_is_enough(held_job):
    assert transition_status(held_job.pk, "failed", attempt=1).status == "failed"


@pytest.mark.parametrize("attempt", [0, 2, -1, "1"])
@pytest.mark.parametrize("target", ["processing", "completed", "failed"])
def test_naming_another_attempt_is_refused(driven_job, held_job, target, attempt, nothing_written):
    for job in (driven_job, held_job):
        with nothing_written(), pytest.raises(LeaseLost, match="at attempt 1, not"):
            transition_status(job.pk, target, attempt=attempt)


@verbs
def test_a_job_between_attempts_is_nobody_s_and_may_be_ended(postponed_job, verb):
    assert verb(postponed_job.pk).is_terminal


# -- races -------------------------------------------------------------------------------------


def interfere(monkeypatch, between, times=1):
    """Let ``between`` happen after the job was read and before it is written."""
    update = persistence.update
    left = [times]

    def late(job, alias, **options):
        if left[0]:
            left[0] -= 1
            between(job)
        update(job, alias, **options)

    monkeypatch.setattr(persistence, "update", late)


def test_a_row_that_moved_on_meanwhile_is_looked_at_again(driven_job, monkeypatch):
    def renew_worker(job):
        Job.objects.filter(pk=job.pk).update(worker="external:other")

    interfere(monkeypatch, renew_worker)

    assert mark_completed(driven_job.pk).status == "completed"


def test_who_comes_second_gets_the_error_of_the_state_found(driven_job, monkeypatch):
    def complete(job):
        found = Job.objects.get(pk=job.pk)
        found.complete({"first": True})
        Job.objects.filter(pk=job.pk).guarded_update(
            status="completed", progress=100, due_at=None, completed_at=found.completed_at
        )

    interfere(monkeypatch, complete)

    with pytest.raises(InvalidStateTransitionError, match="from 'completed' to 'failed'"):
        mark_failed(driven_job.pk, "too late")


def test_a_row_that_never_stands_still_is_given_up(driven_job, monkeypatch):
    numbers = iter(range(1000))

    def renew_worker(job):
        Job.objects.filter(pk=job.pk).update(worker=f"external:{next(numbers)}")

    interfere(monkeypatch, renew_worker, times=1000)

    with pytest.raises(StaleJob):
        mark_completed(driven_job.pk)

    assert next(numbers) == lifecycle.TRIES


# -- signatures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (
            transition_status,
            "(job_id, target_status, *, progress=None, error_message=None, result=None, "
            "failure_code=None, actor=None, attempt=None)",
        ),
        (mark_completed, "(job_id, result=None)"),
        (mark_partial, "(job_id, result=None, error_message='')"),
        (mark_failed, "(job_id, error_message, *, failure_code=FailureCode.HANDLER_ERROR)"),
    ],
)
def test_the_signatures_are_as_documented(service, expected):
    parameters = inspect.signature(service).parameters.values()
    bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]

    assert str(inspect.Signature(bare)) == expected
