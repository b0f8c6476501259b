import pytest
from django.contrib.admin.models import DELETION, LogEntry

from django_jobs.admin import bulk
from django_jobs.handlers import AUTHENTICATED
from django_jobs.models import Job, JobStatus
from django_jobs.testing import make_job
from tests.admin.conftest import address, messages_of
from tests.services.conftest import OUR_WORKER

pytestmark = pytest.mark.django_db

ACTIONS = ["cancel_selected", "retry_selected", "delete_selected"]


@pytest.fixture
def kind(handler):
    return handler(lambda job: None)


@pytest.fixture
def one_of_each(user, kind):
    return {status: make_job(user, status, job_type=kind) for status in JobStatus}


def act(client, action, jobs=(), **options):
    selection = {"action": action, "_selected_action": [str(job.pk) for job in jobs]}
    return client.post(address("job_changelist"), {**selection, **options})


def statuses(jobs):
    return dict(Job.objects.filter(pk__in=[job.pk for job in jobs]).values_list("pk", "status"))


def test_cancelling_selected_jobs_accounts_for_each(as_admin, admin, one_of_each):
    response = act(as_admin, "cancel_selected", one_of_each.values())

    assert response.status_code == 302
    done, skipped = messages_of(response)
    assert done == "2 jobs were cancelled."
    assert skipped.startswith("3 jobs were skipped.")
    for reason in ("completed", "partial", "failed"):
        assert f"1: The job is {reason}." in skipped
    queued, running = one_of_each["queued"], one_of_each["processing"]
    assert Job.objects.get(pk=queued.pk).failure_code == "cancelled"
    assert Job.objects.get(pk=running.pk).cancel_requested_by == admin
    entries = LogEntry.objects.filter(user=admin).values_list("object_id", "change_message")
    assert set(entries) == {(str(queued.pk), "Cancelled."), (str(running.pk), "Asked to stop.")}


def test_retrying_selected_jobs_accounts_for_each(as_admin, admin, one_of_each):
    response = act(as_admin, "retry_selected", one_of_each.values())

    done, skipped = messages_of(response)
    assert done == "2 jobs were ordered again."
    for reason in ("completed", "queued", "processing"):
        assert f"1: The job is {reason}." in skipped
    retried = {job.retry_of_id for job in Job.objects.filter(retry_of__isnull=False)}
    assert retried == {one_of_each["failed"].pk, one_of_each["partial"].pk}
    assert LogEntry.objects.filter(user=admin).count() == 2


def test_retrying_again_makes_no_more_jobs(as_admin, user, kind):
    jobs = [make_job(user, "failed", job_type=kind) for _ in range(2)]
    act(as_admin, "retry_selected", jobs)

    response = act(as_admin, "retry_selected", jobs)

    assert messages_of(response)[-1] == "2 jobs were skipped. 2: The job was retried already."
    assert Job.objects.count() == 4


def test_only_selected_jobs_are_touched(as_admin, user):
    jobs = [make_job(user) for _ in range(2)]

    act(as_admin, "cancel_selected", jobs[:1])

    assert statuses(jobs) == {jobs[0].pk: "failed", jobs[1].pk: "queued"}


def test_all_that_match_the_filter_are_worked_off_in_batches(as_admin, user, monkeypatch):
    monkeypatch.setattr(bulk, "BATCH", 2)
    wanted = [make_job(user, queue="slow") for _ in range(5)]
    other = make_job(user)

    response = as_admin.post(
        address("job_changelist") + "?queue=slow",
        {"action": "cancel_selected", "_selected_action": [wanted[0].pk], "select_across": "1"},
    )

    assert messages_of(response) == ["5 jobs were cancelled."]
    assert set(statuses(wanted).values()) == {"failed"}
    assert statuses([other]) == {other.pk: "queued"}


def test_what_a_retry_makes_is_not_met_by_the_same_action(as_admin, user, kind, monkeypatch):
    monkeypatch.setattr(bulk, "BATCH", 1)
    jobs = [make_job(user, "failed", job_type=kind) for _ in range(3)]

    response = act(as_admin, "retry_selected", jobs, select_across="1")

    assert messages_of(response) == ["3 jobs were ordered again."]
    assert Job.objects.count() == 6


def test_one_job_that_moves_on_does_not_stop_the_others(as_admin, user, monkeypatch):
    jobs = [make_job(user) for _ in range(3)]

    def finish_meanwhile(job):
        if job == jobs[1]:
            job = Job.objects.get(pk=job.pk)
            job.start(worker=OUR_WORKER, lease=30)
            job.complete()
            job.save()
        return ""

    monkeypatch.setattr(bulk, "obstacle_to_cancel", finish_meanwhile)

    response = act(as_admin, "cancel_selected", jobs)

    assert messages_of(response)[0] == "2 jobs were cancelled."
    assert "Cannot transition from 'completed' to 'failed'" in messages_of(response)[1]
    assert list(statuses(jobs[1:2]).values()) == ["completed"]


def test_a_type_that_one_may_not_start_is_skipped(as_staff, user, handler):
    free = handler(lambda job: None, permission=AUTHENTICATED)
    closed = handler(lambda job: None, permission="django_jobs.delete_job")
    jobs = [make_job(user, "failed", job_type=kind) for kind in (free, closed, "gone")]

    response = act(as_staff("view_job", "add_job"), "retry_selected", jobs)

    done, skipped = messages_of(response)
    assert done == "1 job was ordered again."
    assert f"You may not order jobs of the type {closed}." in skipped
    assert "There is no type of job called gone." in skipped
    assert Job.objects.get(retry_of__isnull=False).job_type == free


@pytest.mark.parametrize(
    ("codenames", "offered"),
    [
        (["view_job"], set()),
        (["change_job"], {"cancel_selected"}),
        (["view_job", "add_job"], {"retry_selected"}),
        (["view_job", "delete_job"], {"delete_selected"}),
    ],
)
def test_only_allowed_actions_are_offered_and_done(as_staff, user, kind, codenames, offered):
    client = as_staff(*codenames)
    jobs = [make_job(user, status, job_type=kind) for status in ("queued", "failed")]

    page = client.get(address("job_changelist")).text
    assert {action for action in ACTIONS if f'value="{action}"' in page} == offered
    for action in set(ACTIONS) - offered:
        act(client, action, jobs, post="yes")

    assert sorted(Job.objects.values_list("status", flat=True)) == ["failed", "queued"]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_selection_of_nonsense_ends_in_a_message(as_admin, user, action):
    make_job(user)

    response = as_admin.post(
        address("job_changelist"),
        {"action": action, "_selected_action": ["no-id", "1"], "post": "yes"},
        follow=True,
    )

    assert response.status_code == 200
    assert "The selection is not valid." in response.text
    assert Job.objects.get().status == "queued"


def test_many_different_reasons_do_not_flood_the_page(as_admin, user, monkeypatch):
    monkeypatch.setattr(bulk, "REASONS", 2)
    jobs = [make_job(user, "failed", job_type=f"gone-{number}") for number in range(3)]

    (message,) = messages_of(act(as_admin, "retry_selected", jobs))

    assert message.startswith("3 jobs were skipped.")
    assert message.count("There is no type of job called") == 2
    assert message.endswith("…")


# -- delete ----------------------------------------------------------------------------------------


def test_the_question_before_deleting_counts_and_deletes_nothing(as_admin, one_of_each):
    response = act(as_admin, "delete_selected", one_of_each.values())

    assert response.status_code == 200
    assert "3 jobs that have ended are deleted" in response.text
    assert "2 jobs that have not ended are skipped" in response.text
    assert Job.objects.count() == 5


def test_deleting_skips_live_jobs_with_a_message(as_admin, admin, one_of_each):
    response = act(as_admin, "delete_selected", one_of_each.values(), post="yes")

    done, skipped = messages_of(response)
    assert done == "3 jobs were deleted."
    assert skipped.startswith("2 jobs were skipped.")
    assert "1: The job is queued." in skipped
    assert "1: The job is processing." in skipped
    assert set(Job.objects.values_list("status", flat=True)) == {"queued", "processing"}
    assert LogEntry.objects.filter(user=admin, action_flag=DELETION).count() == 3


def test_the_question_sends_the_selection_back_as_it_came(as_admin, user):
    jobs = [make_job(user, "completed") for _ in range(3)]

    page = act(as_admin, "delete_selected", jobs[:1], select_across="1").text

    assert page.count('name="_selected_action"') == 1
    assert 'name="select_across" value="1"' in page
    act(as_admin, "delete_selected", jobs[:1], select_across="1", post="yes")
    assert not Job.objects.exists()
