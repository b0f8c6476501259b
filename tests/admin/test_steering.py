import pytest
from django.contrib.admin.models import LogEntry

from django_jobs.admin import JobAdmin, steering
from django_jobs.models import Job
from django_jobs.services import cancel_job, mark_completed, retry_job
from django_jobs.testing import make_job, run_due_jobs
from tests.admin.conftest import address, messages_of
from tests.conftest import create_user
from tests.services.conftest import OUR_WORKER
from tests.stored import stored

pytestmark = pytest.mark.django_db


@pytest.fixture
def kind(handler):
    return handler(lambda job: None)


def history_of(job):
    return [
        (entry.user, entry.change_message)
        for entry in LogEntry.objects.filter(object_id=str(job.pk)).order_by("pk")
    ]


# -- cancel ----------------------------------------------------------------------------------------


def test_the_question_names_the_job_and_changes_nothing(as_admin, user):
    job = make_job(user)
    before = stored(job)

    response = as_admin.get(address("job_cancel", job.pk))

    assert response.status_code == 200
    assert str(job) in response.text
    assert 'name="reason"' in response.text
    assert stored(job) == before


def test_a_job_that_waits_is_cancelled_in_the_name_of_who_asked(as_admin, admin, user):
    job = make_job(user)

    response = as_admin.post(address("job_cancel", job.pk), {"reason": "No longer <needed>"})

    assert response.status_code == 302
    assert response.url == address("job_change", job.pk)
    assert messages_of(response) == ["The job was cancelled."]
    job.refresh_from_db()
    assert (job.status, job.failure_code) == ("failed", "cancelled")
    assert job.error_message == "The job was cancelled: No longer <needed>"
    assert job.transitions.order_by("id").last().actor == admin
    assert history_of(job) == [(admin, "Cancelled.")]


def test_a_running_job_is_asked_to_stop(as_admin, admin, user):
    job = make_job(user, "processing", worker=OUR_WORKER)

    response = as_admin.post(address("job_cancel", job.pk), {"reason": ""})

    assert messages_of(response) == ["The job was asked to stop."]
    job.refresh_from_db()
    assert job.status == "processing"
    assert job.cancel_requested_by == admin
    assert history_of(job) == [(admin, "Asked to stop.")]


def test_a_reason_that_cannot_be_stored_is_asked_for_again(as_admin, user):
    job = make_job(user)

    for reason in ("a\0b", "x" * (steering.MAX_REASON + 1)):
        response = as_admin.post(address("job_cancel", job.pk), {"reason": reason})

        assert response.status_code == 200
        assert 'class="errorlist"' in response.text
    assert Job.objects.get().status == "queued"


# -- retry -----------------------------------------------------------------------------------------


def test_the_question_before_a_retry_changes_nothing(as_admin, user, kind):
    job = make_job(user, "failed", job_type=kind)

    response = as_admin.get(address("job_retry", job.pk))

    assert response.status_code == 200
    assert str(job) in response.text
    assert Job.objects.count() == 1


@pytest.mark.parametrize("status", ["failed", "partial"])
def test_a_retry_is_a_new_job_of_the_owner(as_admin, admin, user, kind, status):
    job = make_job(user, status, job_type=kind, parameters={"size": 1})
    before = stored(job)

    response = as_admin.post(address("job_retry", job.pk))

    again = Job.objects.get(retry_of=job)
    assert response.url == address("job_change", again.pk)
    assert messages_of(response) == ["The job was ordered again: this is it."]
    assert (again.user, again.status, again.parameters) == (user, "queued", {"size": 1})
    assert (again.progress, again.result, again.error_message) == (0, None, "")
    assert again.transitions.get().actor == admin
    assert stored(job) == before
    assert history_of(job) == [(admin, f"Retried as job {again.pk}.")]


@pytest.fixture
def partial_job(user, handler):
    """A job of two items, one of which failed."""

    def work(job):
        for name in job.failed_items or ["good", "bad"]:
            with job.item(name):
                if name == "bad":
                    raise ValueError("odd <i>")

    job = make_job(user, job_type=handler(work, retry_failed_items=True))
    run_due_jobs()
    return job


def test_the_failed_items_are_shown_and_can_be_retried_alone(as_admin, admin, user, partial_job):
    page = as_admin.get(address("job_change", partial_job.pk)).text
    assert "ValueError: odd &lt;i&gt;" in page.partition("field-readable_failed_items")[2]
    assert f'href="{address("job_retry_failed", partial_job.pk)}"' in page
    question = as_admin.get(address("job_retry_failed", partial_job.pk)).text
    assert f"Order the 1 failed item of the job {partial_job}" in question
    assert Job.objects.count() == 1

    response = as_admin.post(address("job_retry_failed", partial_job.pk))

    again = Job.objects.get(retry_of=partial_job)
    assert response.url == address("job_change", again.pk)
    assert (again.items_to_retry, again.user) == (["bad"], user)
    assert again.transitions.get().actor == admin
    assert history_of(partial_job) == [(admin, f"Retried as job {again.pk}.")]
    page = as_admin.get(response.url).text
    assert "bad" in page.partition("field-readable_items_to_retry")[2].partition("</pre>")[0]


@pytest.mark.parametrize("method", ["get", "post"])
def test_failed_items_that_cannot_be_retried_alone_end_in_a_message(as_admin, user, kind, method):
    job = make_job(user, "failed", job_type=kind)
    assert "Retry failed items" not in as_admin.get(address("job_change", job.pk)).text

    response = getattr(as_admin, method)(address("job_retry_failed", job.pk))

    [message] = messages_of(response)
    assert "cannot retry the failed items alone" in message
    assert Job.objects.count() == 1


def test_a_list_that_is_gone_by_then_ends_in_a_message(as_admin, partial_job):
    Job.objects.filter(pk=partial_job.pk).update(items_failed=5)
    job = Job.objects.get(pk=partial_job.pk)
    job.assets.create(
        user=job.user,
        name="failed_items.jsonl",
        asset_type="failed_items",
        storage="default",
        storage_path="gone",
        attempt=1,
    )

    response = as_admin.post(address("job_retry_failed", partial_job.pk))

    [message] = messages_of(response)
    assert message == (
        f"Nothing was done: The list of the failed items of job {job.pk} cannot be read."
    )
    assert Job.objects.count() == 1


# -- stale buttons ---------------------------------------------------------------------------------


@pytest.fixture
def unaware(monkeypatch):
    """The job moves on after the view has looked at it: only the service sees the new state."""

    def look_away(name, happens):
        def see_nothing_once(job, asked=[]):  # noqa: B006 - remembers
            if asked:
                return original(job)
            asked.append(job)
            happens(job)
            return ""

        original = getattr(steering, name)
        monkeypatch.setattr(steering, name, see_nothing_once)

    return look_away


@pytest.mark.parametrize("method", ["get", "post"])
def test_cancelling_what_has_completed_ends_in_a_message(as_admin, user, method):
    job = make_job(user, "processing")
    mark_completed(job.pk, {"done": True})
    before = stored(job)

    response = getattr(as_admin, method)(address("job_cancel", job.pk))

    assert response.status_code == 302
    assert messages_of(response) == [
        "Nothing was done: the state of the job has changed. The job is completed."
    ]
    assert stored(job) == before
    assert history_of(job) == []


def test_a_job_that_completes_while_it_is_cancelled_stays_completed(as_admin, user, unaware):
    job = make_job(user, "processing")
    unaware("obstacle_to_cancel", lambda job: mark_completed(job.pk))

    response = as_admin.post(address("job_cancel", job.pk), follow=True)

    assert response.status_code == 200
    assert "the state of the job has changed. The job is completed." in response.text
    job.refresh_from_db()
    assert job.status == "completed"
    assert history_of(job) == []


def test_a_job_that_is_deleted_while_it_is_cancelled_ends_in_a_message(as_admin, user, unaware):
    job = make_job(user)
    unaware("obstacle_to_cancel", lambda job: Job.objects.filter(pk=job.pk).delete())

    response = as_admin.post(address("job_cancel", job.pk), follow=True)

    assert response.status_code == 200
    assert "Nothing was done" in response.text


@pytest.mark.parametrize("status", ["queued", "processing", "completed"])
def test_retrying_what_has_not_failed_ends_in_a_message(as_admin, user, kind, status):
    job = make_job(user, status, job_type=kind)

    response = as_admin.post(address("job_retry", job.pk))

    assert messages_of(response) == [
        f"Nothing was done: the state of the job has changed. The job is {status}."
    ]
    assert Job.objects.count() == 1


def test_a_second_retry_makes_no_second_job(client, as_admin, user, kind):
    job = make_job(user, "failed", job_type=kind)
    first = as_admin.post(address("job_retry", job.pk))
    client.force_login(create_user(is_staff=True, is_superuser=True))

    second = client.post(address("job_retry", job.pk))

    assert Job.objects.filter(retry_of=job).count() == 1
    assert messages_of(first) == ["The job was ordered again: this is it."]
    assert "The job was retried already." in messages_of(second)[-1]
    assert len(history_of(job)) == 1


def test_two_who_retry_at_the_same_moment_make_one_job(as_admin, admin, user, kind, unaware):
    job = make_job(user, "failed", job_type=kind)
    unaware("obstacle_to_retry", lambda job: retry_job(job.pk, actor=admin))

    response = as_admin.post(address("job_retry", job.pk))

    assert Job.objects.filter(retry_of=job).count() == 1
    assert "The job was retried already." in messages_of(response)[-1]
    assert history_of(job) == []


def test_a_type_that_is_gone_ends_in_a_message(as_admin, user):
    job = make_job(user, "failed", job_type="gone")

    response = as_admin.post(address("job_retry", job.pk))

    assert "There is no type of job called gone." in messages_of(response)[-1]


def test_a_retry_that_is_refused_says_why(as_admin, user, handler):
    kind = handler(lambda job: None, max_active_per_user=1)
    job = make_job(user, "failed", job_type=kind)
    make_job(user, job_type=kind)

    response = as_admin.post(address("job_retry", job.pk))

    assert messages_of(response) == [
        f"Nothing was done: You have 1 active jobs of the type {kind}; 1 are allowed."
    ]
    assert Job.objects.count() == 2


def test_cancelling_twice_is_noted_once(as_admin, admin, user):
    job = make_job(user, "processing", worker=OUR_WORKER)
    cancel_job(job.pk, actor=user)

    response = as_admin.post(address("job_cancel", job.pk))

    assert "The job has been asked to stop already." in messages_of(response)[-1]
    job.refresh_from_db()
    assert job.cancel_requested_by == user
    assert history_of(job) == []


def test_a_subclass_that_hides_jobs_hides_them_from_the_views_too(
    as_admin, user, monkeypatch, kind
):
    shown = JobAdmin.get_queryset
    monkeypatch.setattr(
        JobAdmin, "get_queryset", lambda self, request: shown(self, request).filter(queue="team")
    )
    jobs = [make_job(user, "failed", job_type=kind), make_job(user)]

    for name, job in zip(["job_retry", "job_cancel"], jobs, strict=True):
        assert as_admin.post(address(name, job.pk)).url == "/admin/"
    for action in ("retry_selected", "cancel_selected"):
        selection = {"action": action, "_selected_action": [job.pk for job in jobs]}
        as_admin.post(address("job_changelist"), selection)

    assert sorted(Job.objects.values_list("status", flat=True)) == ["failed", "queued"]
