import threading

import pytest

from django_jobs.exceptions import LeaseLost
from django_jobs.models import Asset
from django_jobs.services import (
    create_asset,
    create_job,
    mark_completed,
    mark_failed,
    mark_partial,
    transition_status,
    update_progress,
)
from django_jobs.services.fencing import Fence, check_fence, current_fence
from django_jobs.testing import make_job

VERBS = {
    "update_progress": lambda job: update_progress(job.id, 50),
    "transition_status": lambda job: transition_status(job.id, "processing", progress=50),
    "create_asset": lambda job: create_asset(job.id, job.user, "text", "", "a.txt", 1),
    "mark_completed": lambda job: mark_completed(job.id, {"by": "hand"}),
    "mark_partial": lambda job: mark_partial(job.id, None, "by hand"),
    "mark_failed": lambda job: mark_failed(job.id, "by hand"),
}


@pytest.fixture
def inside():
    """Be inside the handler of an attempt."""
    tokens = []

    def enter(job):
        tokens.append(current_fence.set(Fence.of(job)))

    yield enter
    for token in reversed(tokens):
        current_fence.reset(token)


# -- who may write -----------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("status", ["queued", "completed", "partial", "failed"])
def test_a_job_that_nobody_runs_is_nobody_s(user, status):
    check_fence(make_job(user, status), None)


@pytest.mark.django_db
def test_a_job_that_something_else_runs_is_open(driven_job):
    check_fence(driven_job, None)


@pytest.mark.django_db
def test_a_job_between_attempts_is_open(postponed_job):
    check_fence(postponed_job, None)


@pytest.mark.django_db
def test_a_job_that_our_workers_hold_is_closed(held_job):
    with pytest.raises(LeaseLost, match="held by one of our workers"):
        check_fence(held_job, None)


@pytest.mark.django_db
def test_the_number_of_the_open_attempt_opens_it(held_job):
    check_fence(held_job, 1)


@pytest.mark.django_db
@pytest.mark.parametrize("attempt", [0, 2])
def test_another_number_does_not(held_job, driven_job, attempt):
    for job in (held_job, driven_job):
        with pytest.raises(LeaseLost, match=f"at attempt 1, not {attempt}"):
            check_fence(job, attempt)


@pytest.mark.django_db
@pytest.mark.parametrize("attempt", [None, 1, 2])
def test_inside_its_own_handler_a_job_is_open(held_job, inside, attempt):
    inside(held_job)

    check_fence(held_job, attempt)


@pytest.mark.django_db
def test_inside_the_handler_of_another_job_it_is_closed(held_job, inside, user):
    inside(make_job(user, "processing", worker="host/machine/1/1/efgh"))

    with pytest.raises(LeaseLost, match="held by one of our workers"):
        check_fence(held_job, None)


@pytest.mark.django_db
@pytest.mark.parametrize("attempt", [None, 2])
def test_inside_a_handler_whose_attempt_is_over_it_is_closed(held_job, inside, attempt):
    inside(held_job)
    held_job.attempt = 2

    with pytest.raises(LeaseLost, match=r"Attempt 1 of job .* is over"):
        check_fence(held_job, attempt)


@pytest.mark.django_db
def test_inside_a_handler_whose_job_went_to_another_worker_it_is_closed(held_job, inside):
    inside(held_job)
    held_job.worker = "host/machine/2/2/efgh"

    with pytest.raises(LeaseLost, match=r"Attempt 1 of job .* is over"):
        check_fence(held_job, None)


@pytest.mark.django_db
def test_a_fence_is_job_attempt_and_worker(held_job):
    fence = Fence.of(held_job)

    assert fence == Fence(held_job.pk, 1, held_job.worker)
    assert fence.row("default").get() == held_job
    assert not Fence(held_job.pk, 2, held_job.worker).row("default").exists()
    assert not Fence(held_job.pk, 1, "somebody else").row("default").exists()


# -- a handler that uses the services itself ---------------------------------------------------


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", VERBS)
def test_a_handler_may_use_the_services_for_its_own_job(user, handler, verb):
    done = []

    def work(job):
        done.append(VERBS[verb](job))

    job = create_job(user, handler(work))

    job.refresh_from_db()
    assert len(done) == 1
    assert job.status == {"mark_failed": "failed", "mark_partial": "partial"}.get(verb, "completed")
    assert Asset.objects.count() == (verb == "create_asset")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", VERBS)
def test_nobody_else_may_meanwhile(user, handler, verb):
    raised = []

    def work(job):
        token = current_fence.set(None)  # as in another process
        try:
            VERBS[verb](job)
        except LeaseLost as error:
            raised.append(error)
        finally:
            current_fence.reset(token)

    job = create_job(user, handler(work))

    job.refresh_from_db()
    assert len(raised) == 1
    assert (job.status, job.result) == ("completed", None)
    assert Asset.objects.count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_handler_may_not_write_for_the_job_that_ordered_its_own(user, handler):
    raised = []

    def child(job):
        try:
            update_progress(job.parameters["parent"], 50)
        except LeaseLost as error:
            raised.append(error)

    child_type = handler(child)

    def parent(job):
        create_job(job.user, child_type, {"parent": str(job.id)})
        update_progress(job.id, 20)  # its own fence is back

    job = create_job(user, handler(parent))

    job.refresh_from_db()
    assert job.status == "completed"
    assert len(raised) == 1


@pytest.mark.django_db(transaction=True)
def test_the_fence_is_gone_when_the_handler_is(user, handler):
    def work(job):
        raise KeyboardInterrupt

    create_job(user, handler(work))

    assert current_fence.get() is None


def test_another_thread_has_no_fence_of_its_own():
    token = current_fence.set("mine")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(current_fence.get()))
    thread.start()
    thread.join()
    current_fence.reset(token)

    assert seen == [None]
