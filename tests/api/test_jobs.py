import datetime as dt
import uuid

import pytest
from django.conf import settings
from django.core.files.storage import storages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_jobs.handlers import AUTHENTICATED, register_job_type, registry
from django_jobs.models import Asset, Job, JobStatus, JobTransition
from django_jobs.services import cancel_job, transition_status
from django_jobs.states import LIVE_STATES, TERMINAL_STATES
from django_jobs.testing import make_job, run_due_jobs
from tests.api.callers import Caller, attach_file, attach_link, create_staff, url
from tests.stored import log_of, row_of, stored

pytestmark = pytest.mark.django_db


def address(job, name="job-detail"):
    return f"http://testserver{url(name, job.pk)}"


# -- create ------------------------------------------------------------------------------------


def test_an_order_is_accepted_with_the_whole_job_and_its_address(me, user, open_type):
    response = me.order(open_type, parameters={"size": 320})

    job = Job.objects.get()
    assert response.status_code == 202
    assert response.headers["Location"] == address(job)
    assert response.json() == me.get("job-detail", job.pk).json()
    assert (job.user_id, job.job_type, job.status) == (user.pk, open_type, "queued")
    assert job.parameters == {"size": 320}


def test_a_new_job_looks_like_this(me, open_type):
    body = me.order(open_type, parameters={"size": 320}, priority=-5).json()

    job = Job.objects.get()
    assert timezone.is_aware(dt.datetime.fromisoformat(body.pop("created_at")))
    assert body == {
        "id": str(job.pk),
        "job_type": open_type,
        "status": "queued",
        "done": False,
        "progress": 0,
        "progress_message": "",
        "estimated_completion": None,
        "items": {"total": 0, "succeeded": 0, "failed": 0},
        "parameters": {"size": 320},
        "items_to_retry": None,
        "result": None,
        "failed_items": [],
        "error": None,
        "attempt": 0,
        "max_attempts": 1,
        "queue": "default",
        "priority": -5,
        "run_at": None,
        "started_at": None,
        "completed_at": None,
        "urls": {
            "self": address(job),
            "cancel": address(job, "job-cancel"),
            "retry": address(job, "job-retry"),
            "transitions": address(job, "job-transitions"),
            "assets": address(job, "job-assets"),
        },
    }


def test_what_the_server_decides_cannot_be_sent(me, user, other_user, open_type):
    sent = {
        "id": str(uuid.uuid4()),
        "user": str(other_user.pk),
        "owner": str(other_user.pk),
        "status": "completed",
        "progress": 100,
        "result": {"a": 1},
        "error_message": "x",
        "failure_code": "cancelled",
        "worker": "me",
        "attempt": 7,
        "max_attempts": 99,
        "created_at": "2001-01-01T00:00:00Z",
        "started_at": "2001-01-01T00:00:00Z",
        "completed_at": "2001-01-01T00:00:00Z",
        "due_at": "2001-01-01T00:00:00Z",
        "retry_of": str(make_job(other_user, JobStatus.FAILED).pk),
        "idempotency_key": "k",
        "version": 9,
    }

    response = me.order(open_type, **sent)

    row = row_of(Job.objects.for_user(user).get())
    assert response.status_code == 202
    assert (row["status"], row["progress"], row["result"], row["worker"]) == ("queued", 0, None, "")
    assert (row["attempt"], row["max_attempts"], row["error_message"]) == (0, 1, "")
    assert (row["retry_of_id"], row["idempotency_key"], row["completed_at"]) == (None, None, None)
    assert str(row["id"]) != sent["id"]
    assert row["created_at"].year > 2001


def test_an_idempotency_key_leads_to_the_same_job(me, open_type):
    key = {"Idempotency-Key": "3f1c"}
    first = me.order(open_type, parameters={"a": 1}, headers=key)
    again = me.order(open_type, parameters={"a": 1}, headers=key)

    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json() == again.json()
    assert first.headers["Location"] == again.headers["Location"]
    assert Job.objects.count() == 1


def test_an_idempotency_key_with_another_order_is_refused(me, open_type):
    key = {"Idempotency-Key": "3f1c"}
    me.order(open_type, parameters={"a": 1}, headers=key)

    response = me.order(open_type, parameters={"a": 2}, headers=key)

    assert response.status_code == 422
    assert response.json() == {
        "detail": "This idempotency key was used for another request.",
        "code": "idempotency_conflict",
    }
    assert Job.objects.count() == 1


def test_idempotency_keys_of_others_do_not_matter(me, stranger, open_type):
    key = {"Idempotency-Key": "3f1c"}
    me.order(open_type, parameters={"a": 1}, headers=key)

    assert stranger.order(open_type, parameters={"a": 2}, headers=key).status_code == 202
    assert Job.objects.count() == 2


def test_too_many_active_jobs_are_refused_with_the_reason(me):
    name = register_job_type("one", permission=AUTHENTICATED, max_active_per_user=1).name
    me.order(name)

    response = me.order(name)

    assert response.status_code == 429
    assert response.json() == {
        "detail": "You have 1 active jobs of the type one; 1 are allowed.",
        "code": "too_many_active_jobs",
    }


def test_staff_order_for_themselves_whoever_they_ask_for(viewer, user, open_type):
    response = viewer.post("job-list", body={"job_type": open_type}, query_params={"user": user.pk})

    assert Job.objects.get().user_id == viewer.user.pk
    assert "?" not in response.headers["Location"]


# -- list and detail ---------------------------------------------------------------------------


def test_lists_are_newest_first_and_leave_out_what_may_be_large(me, user):
    jobs = [make_job(user, JobStatus.COMPLETED, parameters={"a": 1}, result=[1]) for _ in range(3)]

    results = me.get("job-list").json()["results"]

    assert [result["id"] for result in results] == [str(job.pk) for job in reversed(jobs)]
    detail = me.get("job-detail", jobs[-1].pk).json()
    large = {"parameters": {"a": 1}, "result": [1], "items_to_retry": None, "failed_items": []}
    assert {**results[0], **large} == detail


@pytest.mark.parametrize("size", [10, 50])
def test_a_list_is_one_query_that_does_not_fetch_what_may_be_large(me, user, size):
    for _ in range(size + 1):
        make_job(user, parameters={"a": 1})

    with CaptureQueriesContext(connection) as captured:
        response = me.get("job-list", page_size=size)

    assert len(response.json()["results"]) == size
    assert len(captured) == 1
    for name in ("parameters", "result", "failed_items", "items_to_retry"):
        assert f"{name}" not in captured[0]["sql"].replace("items_failed", "")


@pytest.mark.parametrize("status", JobStatus)
def test_a_job_is_done_when_it_is_terminal(me, user, status):
    job = make_job(user, status)

    body = me.get("job-detail", job.pk).json()

    assert (body["status"], body["done"]) == (status, status in TERMINAL_STATES)
    assert me.get("job-list").json()["results"][0]["done"] is body["done"]


def test_a_failure_has_code_message_and_attempt(me, user):
    job = make_job(user, JobStatus.FAILED, error_message="No disk.", failure_code="timed_out")

    body = me.get("job-detail", job.pk).json()

    assert body["error"] == {"code": "timed_out", "message": "No disk.", "attempt": 1}
    assert body["result"] is None


def test_a_running_job_tells_when_it_may_have_ended(me, user):
    job = make_job(user, JobStatus.PROCESSING, progress=50)
    begun = job.attempt_started_at

    [listed] = me.get("job-list").json()["results"]
    shown = me.get("job-detail", job.pk).json()

    for body in (listed, shown):
        estimate = dt.datetime.fromisoformat(body["estimated_completion"])
        assert timezone.is_aware(estimate)
        assert estimate > (begun if settings.USE_TZ else timezone.make_aware(begun))


def test_a_partial_job_has_a_result_and_an_error(me, user):
    job = make_job(user, JobStatus.PARTIAL, result={"rows": 2}, error_message="One row was bad.")

    body = me.get("job-detail", job.pk).json()

    assert body["result"] == {"rows": 2}
    assert body["error"]["code"] == "some_items_failed"


@pytest.mark.parametrize("result", [None, {}, [], "", 0, False, 2**70, {"n": 2**53 + 1}, "Zürich"])
def test_a_result_is_given_as_it_is(me, user, result):
    job = make_job(user, JobStatus.COMPLETED, result=result)

    assert me.get("job-detail", job.pk).json()["result"] == result


@pytest.mark.parametrize("spelled", [str.upper, lambda key: key.replace("-", "")])
def test_other_spellings_of_an_id_are_the_same_id(me, user, spelled):
    job = make_job(user)

    assert me.get("job-detail", spelled(str(job.pk))).json()["id"] == str(job.pk)


IMPOSSIBLE = [
    "invalid",
    "0" * 33,
    "1",
    "x" * 3000,
    "٣" * 31,
    "%00",
    "\x00",
    "null",
    "-1",
    "' OR 1=1",
]


@pytest.mark.parametrize("key", [*IMPOSSIBLE, uuid.UUID(int=1)], ids=ascii)
@pytest.mark.parametrize("name", ["job-detail", "job-transitions", "asset-detail"])
def test_what_cannot_be_an_id_is_as_absent_as_an_absent_one(me, name, key):
    response = me.get(name, key)

    assert response.status_code == 404
    assert response.json() == {"detail": "Not found.", "code": "not_found"}


@pytest.mark.parametrize("name", ["job-list", "asset-list"])
def test_nothing_of_others_is_in_any_list(me, stranger, user, name):
    job = make_job(user, JobStatus.COMPLETED, job_type="secret-type", parameters={"a": "secret"})
    asset = attach_file(job, "secret-name")
    queries = [
        {},
        {"job_type": "secret-type"},
        {"status": "completed"},
        {"job": str(job.pk)},
        {"user": str(user.pk)},
        {"ordering": "id"},
        {"search": "secret"},
        {"page_size": 1},
    ]

    bodies = [stranger.get(name, **query).content for query in queries]
    bodies.append(stranger.client.options(url(name)).content)

    for body in bodies:
        for own in (job.pk, asset.pk, "secret"):
            assert str(own).encode() not in body


# -- what is for staff only --------------------------------------------------------------------


def test_users_see_no_workers_tracebacks_paths_or_other_people(me, user):
    operator = create_staff("view_job", "change_job")
    job = make_job(user, JobStatus.FAILED, worker="host/machine/1/2/abcd")
    asset = attach_file(job)
    JobTransition.objects.create(
        job=job, to_status="failed", actor=operator, worker="host/machine/1", detail="Traceback"
    )

    gets = [
        ("job-list",),
        ("job-detail", job.pk),
        ("job-transitions", job.pk),
        ("job-assets", job.pk),
        ("asset-list",),
        ("asset-detail", asset.pk),
    ]
    for get in gets:
        response = me.get(*get)
        text = response.content.decode()
        assert response.status_code == 200
        for secret in ("host/machine", "Traceback", "somewhere/", asset.storage_path):
            assert secret not in text
        for key in ("user", "actor", "worker", "detail", "storage", "storage_path", "retry_of"):
            assert f'"{key}":' not in text


def test_staff_see_who_and_where(viewer, user):
    job = make_job(user, JobStatus.FAILED, worker="host/machine/1/2/abcd")
    JobTransition.objects.create(
        job=job, to_status="failed", actor=user, worker="host/machine/1", detail="Traceback"
    )
    asked = {"user": user.pk}

    body = viewer.get("job-detail", job.pk, **asked).json()
    entry = viewer.get("job-transitions", job.pk, **asked).json()["results"][-1]

    assert (str(body["user"]), body["worker"]) == (str(user.pk), "host/machine/1/2/abcd")
    assert (str(entry["actor"]), entry["worker"]) == (str(user.pk), "host/machine/1")
    assert entry["detail"] == "Traceback"


def test_the_links_of_somebody_elses_job_can_be_followed(user):
    operator = create_staff("view_job", "change_job")
    caller = Caller(operator)
    job = make_job(user, JobStatus.FAILED)
    body = caller.get("job-detail", job.pk, user=user.pk).json()

    for name in ("self", "transitions", "assets"):
        assert caller.client.get(body["urls"][name]).status_code == 200
    assert caller.client.post(body["urls"]["cancel"]).status_code == 409


# -- cancel ------------------------------------------------------------------------------------


def test_cancelling_a_job_that_waits_ends_it(me, user):
    job = make_job(user)

    response = me.post("job-cancel", job.pk)

    assert response.status_code == 200
    assert response.json()["status"] == "failed"
    assert response.json()["error"]["code"] == "cancelled"
    assert {entry["actor_id"] for entry in log_of(job)} == {user.pk}


def test_cancelling_a_job_that_runs_is_asked_once(me, user):
    job = make_job(user, JobStatus.PROCESSING)

    first = me.post("job-cancel", job.pk)
    again = me.post("job-cancel", job.pk)

    assert (first.status_code, again.status_code) == (202, 200)
    assert first.headers["Location"] == address(job)
    assert again.json()["status"] == "processing"
    assert row_of(job)["cancel_requested_by_id"] == user.pk


def test_cancelling_what_is_cancelled_changes_nothing(me, user):
    job = cancel_job(make_job(user).pk, actor=user)
    before = stored(job)

    assert me.post("job-cancel", job.pk).status_code == 200
    assert stored(job) == before


@pytest.mark.parametrize("status", TERMINAL_STATES)
def test_what_ended_otherwise_cannot_be_cancelled(me, user, status):
    job = make_job(user, status)
    before = stored(job)

    response = me.post("job-cancel", job.pk)

    assert response.status_code == 409
    assert response.json() == {
        "detail": f"Cannot transition from '{status}' to 'failed'",
        "code": "invalid_state_transition",
    }
    assert stored(job) == before


# -- retry -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.PARTIAL])
def test_a_retry_is_a_new_job(me, user, open_type, status):
    job = make_job(user, status, job_type=open_type, parameters={"a": 1})

    response = me.post("job-retry", job.pk)

    again = Job.objects.get(retry_of=job)
    assert response.status_code == 202
    assert response.headers["Location"] == address(again)
    assert (response.json()["id"], response.json()["status"]) == (str(again.pk), "queued")
    assert again.parameters == {"a": 1}


@pytest.mark.parametrize("status", [*LIVE_STATES, JobStatus.COMPLETED])
def test_what_did_not_fail_cannot_be_retried(me, user, open_type, status):
    job = make_job(user, status, job_type=open_type)

    response = me.post("job-retry", job.pk)

    assert (response.status_code, response.json()["code"]) == (409, "job_not_retryable")
    assert Job.objects.count() == 1


def test_the_second_click_on_retry_is_refused(me, user, open_type):
    job = make_job(user, JobStatus.FAILED, job_type=open_type)

    clicks = [me.post("job-retry", job.pk) for _ in range(2)]

    assert [click.status_code for click in clicks] == [202, 409]
    assert Job.objects.count() == 2


def test_a_job_whose_type_is_gone_cannot_be_retried(me, user):
    job = make_job(user, JobStatus.FAILED, job_type="gone")

    response = me.post("job-retry", job.pk)

    assert response.status_code == 400
    assert response.json() == {"job_type": ["There is no type of job called 'gone'."]}


@pytest.fixture
def partial_job(user, handler):
    """A job of two items, one of which failed."""

    def work(job):
        for name in job.failed_items or ["good", "bad"]:
            with job.item(name):
                if name == "bad":
                    raise ValueError("odd")

    job = make_job(user, job_type=handler(work, permission=AUTHENTICATED, retry_failed_items=True))
    run_due_jobs()
    return job


def test_the_failed_items_are_shown_and_can_be_retried_alone(me, partial_job):
    shown = me.get("job-detail", partial_job.pk).json()
    assert shown["items"] == {"total": 2, "succeeded": 1, "failed": 1}
    assert shown["failed_items"] == [{"name": "bad", "error": "ValueError: odd"}]

    response = me.post("job-retry", partial_job.pk, {"only_failed": True})

    again = Job.objects.get(retry_of=partial_job)
    assert (response.status_code, response.json()["items_to_retry"]) == (202, ["bad"])
    assert again.items_to_retry == ["bad"]


@pytest.mark.parametrize("body", [None, {}, {"only_failed": False}, {"other": 1}])
def test_a_retry_is_about_all_items_unless_it_says_so(me, partial_job, body):
    assert me.post("job-retry", partial_job.pk, body).json()["items_to_retry"] is None


def test_failed_items_that_cannot_be_retried_alone_say_why(me, user, open_type):
    job = make_job(user, JobStatus.FAILED, job_type=open_type)

    response = me.post("job-retry", job.pk, {"only_failed": True})

    assert (response.status_code, response.json()["code"]) == (409, "job_not_retryable")
    assert "cannot retry the failed items alone" in response.json()["detail"]
    assert Job.objects.count() == 1


@pytest.mark.parametrize("body", [{"only_failed": "perhaps"}, {"only_failed": None}, [1], "x"])
def test_a_wish_that_makes_no_sense_is_refused(me, partial_job, body):
    response = me.post("job-retry", partial_job.pk, body)

    assert response.status_code == 400
    assert Job.objects.count() == 1


def test_staff_retry_for_the_owner(user, open_type):
    operator = Caller(create_staff("view_job", "change_job"))
    job = make_job(user, JobStatus.FAILED, job_type=open_type)

    response = operator.post("job-retry", job.pk, query_params={"user": user.pk})

    again = Job.objects.get(retry_of=job)
    assert again.user_id == user.pk
    assert log_of(again)[0]["actor_id"] == operator.user.pk
    assert response.headers["Location"] == f"{address(again)}?user={user.pk}"


# -- delete ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", TERMINAL_STATES)
def test_a_job_that_has_ended_is_deleted_with_what_it_made(
    me, user, status, django_capture_on_commit_callbacks
):
    job = make_job(user, status)
    asset = attach_file(job)

    with django_capture_on_commit_callbacks(execute=True):
        response = me.delete("job-detail", job.pk)

    assert (response.status_code, response.content) == (204, b"")
    assert not Job.objects.exists() and not Asset.objects.exists()
    assert not JobTransition.objects.exists()
    assert not storages["default"].exists(asset.storage_path)


@pytest.mark.parametrize("status", LIVE_STATES)
def test_a_live_job_is_not_deleted(me, user, status):
    job = make_job(user, status)
    before = stored(job)

    response = me.delete("job-detail", job.pk)

    assert response.status_code == 409
    assert response.json()["code"] == "job_not_deletable"
    assert stored(job) == before


# -- transitions and assets --------------------------------------------------------------------


def test_the_log_is_told_from_the_beginning(me, user):
    job = make_job(user, JobStatus.FAILED, error_message="No disk.")

    entries = me.get("job-transitions", job.pk).json()["results"]

    assert [entry["to_status"] for entry in entries] == ["queued", "processing", "failed"]
    assert set(entries[-1]) == {
        "id",
        "from_status",
        "to_status",
        "attempt",
        "code",
        "message",
        "created_at",
    }
    assert (entries[-1]["code"], entries[-1]["message"]) == ("handler_error", "No disk.")


def test_the_assets_of_a_job_are_its_own(me, user):
    job, other = make_job(user), make_job(user)
    assets = [attach_file(job, "a"), attach_link(job, "https://x.org/b", name="b")]
    attach_file(other)

    results = me.get("job-assets", job.pk).json()["results"]

    assert [result["id"] for result in results] == [str(asset.pk) for asset in assets]
    assert {result["job"] for result in results} == {str(job.pk)}


def test_a_job_driven_by_services_is_followed_over_the_api(me, open_type):
    location = me.order(open_type).headers["Location"]
    key = Job.objects.get().pk
    transition_status(key, "processing", progress=40)
    assert me.client.get(location).json()["progress"] == 40
    transition_status(key, "completed", result={"rows": 3})

    body = me.client.get(location).json()

    assert (body["done"], body["result"], body["progress"]) == (True, {"rows": 3}, 100)


def test_a_job_of_a_type_that_is_not_known_here_is_shown(me, user):
    job = make_job(user, job_type="elsewhere")
    registry.remove("elsewhere")

    assert me.get("job-detail", job.pk).json()["job_type"] == "elsewhere"
