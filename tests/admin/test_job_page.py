import html
import json
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_jobs.admin import page as job_page
from django_jobs.models import Asset, FailureCode, Job, JobStatus, JobTransition
from django_jobs.services import cancel_job, retry_job
from django_jobs.testing import make_job
from tests.admin.conftest import address
from tests.admin.oddities import give_unknown_status
from tests.services.conftest import OUR_WORKER

pytestmark = pytest.mark.django_db

EVIL = "<script>alert('x')</script>"


def page_of(client, job):
    response = client.get(address("job_change", job.pk))
    assert response.status_code == 200
    return response.text


def shown_json(page, name):
    """The text of the JSON in the page."""
    cell = page.partition(f"field-readable_{name}")[2]
    return html.unescape(re.search(r"<pre[^>]*>(.*?)</pre>", cell, re.DOTALL).group(1))


@pytest.mark.parametrize("status", list(JobStatus))
def test_the_page_of_a_job_in_any_state(as_admin, user, status):
    job = make_job(user, status, job_type="printing", queue="slow")

    page = page_of(as_admin, job)

    assert str(status.label) in page
    for fact in (str(job.pk), "printing (not known here)", "slow", str(user)):
        assert fact in page


def test_no_field_can_be_filled_in_and_nothing_saved(as_admin, user):
    page = page_of(as_admin, make_job(user, "processing"))

    content = page.partition('id="content-main"')[2]
    assert 'name="_save' not in content
    assert not re.search(r"<(textarea|select)", content)
    assert re.findall(r'<input[^>]* name="(\w+)"', content) == ["csrfmiddlewaretoken"]


@pytest.mark.parametrize(
    "name", ["_save", "_continue", "_addanother", "_saveasnew", "_fsm_transition_to"]
)
def test_a_crafted_post_changes_nothing(as_admin, user, name):
    job = make_job(user, "processing", worker=OUR_WORKER)
    before = list(Job.objects.values()), list(JobTransition.objects.values())
    wish = {"status": "completed", "progress": "99", "user": "1", "parameters": "{}", name: "fail"}

    response = as_admin.post(address("job_change", job.pk), wish)

    assert response.status_code == 403
    assert (list(Job.objects.values()), list(JobTransition.objects.values())) == before


# -- readable JSON ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("progress", "is_known"), [(0, False), (50, True)])
def test_the_end_of_a_running_job_is_estimated(as_admin, user, progress, is_known):
    job = make_job(user, "processing", worker=OUR_WORKER, progress=progress)

    cell = page_of(as_admin, job).partition("field-estimated")[2].partition("field-not_before")[0]

    assert "Estimated completion" in cell
    assert ("<time" in cell) == is_known


def test_parameters_and_result_are_json_with_real_characters(as_admin, user):
    value = {"city": "Zürich 北京", "ok": True, "n": None}
    job = make_job(user, "completed", parameters=value, result=value)

    page = page_of(as_admin, job)

    for name in ("parameters", "result"):
        text = shown_json(page, name)
        assert json.loads(text) == value
        assert "Zürich 北京" in text
        assert '\n  "ok": true' in text
        assert '\n  "n": null' in text


def test_empty_results_can_be_told_apart(as_admin, user):
    values = [None, [], "", 0, {}, False, "null"]
    jobs = [make_job(user, "completed", result=value) for value in values]

    texts = [shown_json(page_of(as_admin, job), "result") for job in jobs]

    assert texts == ["null", "[]", '""', "0", "{}", "false", '"null"']


@pytest.mark.parametrize("result", ["ä" * 900_000, ["ä" * 100] * 9_000, [[1]] * 500_000])
def test_five_megabytes_are_cut_with_a_notice(as_admin, user, settings, result):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "MAX_RESULT_BYTES": 20_000_000}
    job = make_job(user, "completed", result=result)

    page = page_of(as_admin, job)

    assert len(page) < 100_000
    assert len(shown_json(page, "result").encode()) <= 20 * 1024
    assert "Only the first 20.0\xa0KB are shown." in page


def test_what_fits_has_no_notice(as_admin, user):
    job = make_job(user, "completed", result="x" * (20 * 1024 - 2))

    assert "Only the first" not in page_of(as_admin, job)


# -- the log and the assets ------------------------------------------------------------------------


def retried_once(user):
    job = make_job(user, "processing", worker=OUR_WORKER, max_attempts=2)
    job.postpone(
        delay=0, code="handler_error", message="The disk is full.", detail="Traceback: line 1"
    )
    job.save()
    job = Job.objects.get(pk=job.pk)
    job.resume(worker=OUR_WORKER, lease=30)
    job.save()
    job = Job.objects.get(pk=job.pk)
    job.fail("Again.", "timed_out")
    job.save()
    return job


def test_the_log_is_shown_with_the_newest_step_last(as_admin, user):
    page = page_of(as_admin, retried_once(user))

    log = page.partition('id="transitions"')[2].partition("</table>")[0]
    words = re.findall(r"django-jobs-status-(\w+)", log)
    assert words == [
        "queued",
        *("queued", "processing"),
        *("processing", "processing"),
        *("processing", "processing"),
        *("processing", "failed"),
    ]
    assert log.index("The disk is full.") < log.index("Again.")
    assert OUR_WORKER in log
    assert "timed_out" in log
    assert str(user) in log


def test_a_traceback_is_folded(as_admin, user):
    page = page_of(as_admin, retried_once(user))

    details = re.findall(r"<details>(.*?)</details>", page, re.DOTALL)
    assert len(details) == 1
    assert "Traceback: line 1" in details[0]


def test_a_long_log_is_cut_to_its_end_with_a_notice(as_admin, user, monkeypatch):
    monkeypatch.setattr(job_page, "SHOWN", 2)

    page = page_of(as_admin, retried_once(user))

    log = page.partition('id="transitions"')[2].partition("</table>")[0]
    assert log.count("<tr>") == 1 + 2
    assert "Again." in log
    assert "Only the last" in log


def test_assets_are_listed_with_a_link_to_what_they_are(as_admin, user):
    job = make_job(user, "processing")
    stored = add_asset(job, name="a.txt", storage="default", storage_path="a.txt", file_size=2048)
    add_asset(job, name="page", url="https://example.org/?a=1&b=2")
    add_asset(job, name="path", url="/files/b.txt")
    add_asset(job, name="trap", url="javascript:alert(1)")
    add_asset(job, name="nothing")

    page = page_of(as_admin, job)

    assets = page.partition('id="assets"')[2]
    assert f'href="{address("asset_download", stored.pk)}"' in assets
    assert "2.0\xa0KB" in assets
    assert 'href="https://example.org/?a=1&amp;b=2"' in assets
    assert 'href="/files/b.txt"' in assets
    assert "javascript:alert(1)" in assets
    assert 'href="javascript:' not in page


def add_asset(job, **fields):
    return Asset.objects.create(job=job, user=job.user, asset_type="text", **fields)


def test_many_assets_are_cut_with_a_link_to_all(as_admin, user, monkeypatch):
    monkeypatch.setattr(job_page, "SHOWN", 2)
    job = make_job(user, "processing")
    for number in range(3):
        add_asset(job, name=f"asset-{number}")

    page = page_of(as_admin, job)

    assert "asset-1" in page
    assert "asset-2" not in page
    assert f'href="{address("asset_changelist")}?q={job.pk}"' in page


def test_assets_are_shown_only_to_who_may_see_them(as_staff, user):
    job = make_job(user, "processing")
    add_asset(job, name="secret.txt")

    assert "secret.txt" not in page_of(as_staff("view_job"), job)
    assert "secret.txt" in page_of(as_staff("view_job", "view_asset"), job)


def test_more_steps_and_assets_take_no_more_queries(as_admin, user):
    def count(job):
        with CaptureQueriesContext(connection) as queries:
            page_of(as_admin, job)
        return len(queries)

    small = make_job(user, "failed")
    large = retried_once(user)
    for number in range(10):
        add_asset(large, name=f"asset-{number}")

    assert count(small) == count(large)


# -- links between a job and its retry -------------------------------------------------------------


def test_a_retry_and_what_it_repeats_link_to_each_other(as_admin, admin, user, handler):
    job = make_job(user, "failed", job_type=handler(lambda job: None))
    again = retry_job(job.pk, actor=admin)

    assert f'href="{address("job_change", again.pk)}"' in page_of(as_admin, job)
    assert f'href="{address("job_change", job.pk)}"' in page_of(as_admin, again)


# -- buttons ---------------------------------------------------------------------------------------

CANCEL, RETRY = "Cancel job", "Retry job"


@pytest.mark.parametrize(
    ("status", "buttons"),
    [
        ("queued", {CANCEL}),
        ("processing", {CANCEL}),
        ("completed", set()),
        ("partial", {RETRY}),
        ("failed", {RETRY}),
    ],
)
def test_only_what_is_legal_is_offered(as_admin, user, handler, status, buttons):
    job = make_job(user, status, job_type=handler(lambda job: None))

    assert offered(as_admin, job) == buttons


def offered(client, job):
    page = page_of(client, job)
    return {label for label in (CANCEL, RETRY) if f">{label}</a>" in page}


def test_what_was_asked_to_stop_is_not_cancelled_again(as_admin, admin, user):
    job = make_job(user, "processing")
    cancel_job(job.pk, actor=admin)

    assert offered(as_admin, job) == set()


def test_what_was_retried_is_not_retried_again(as_admin, admin, user, handler):
    job = make_job(user, "failed", job_type=handler(lambda job: None))
    retry_job(job.pk, actor=admin)

    assert offered(as_admin, job) == set()


@pytest.mark.parametrize("status", ["processing", "failed"])
def test_who_may_only_look_is_offered_nothing(as_staff, user, handler, status):
    job = make_job(user, status, job_type=handler(lambda job: None))

    assert offered(as_staff("view_job"), job) == set()


def test_who_may_not_start_the_type_is_not_offered_a_retry(as_staff, user, handler):
    kind = handler(lambda job: None, permission="django_jobs.delete_job")
    job = make_job(user, "failed", job_type=kind)

    assert offered(as_staff("view_job", "add_job"), job) == set()
    assert offered(as_staff("view_job", "add_job", "delete_job"), job) == {RETRY}


# -- what nobody expects ---------------------------------------------------------------------------


def test_whatever_a_handler_writes_is_shown_as_text(as_admin, user):
    job = make_job(
        user,
        "processing",
        worker=OUR_WORKER,
        job_type=EVIL,
        queue=EVIL,
        parameters={EVIL: EVIL},
        idempotency_key=EVIL,
    )
    job.report(50, EVIL)
    job.complete_partially({EVIL: EVIL}, EVIL)
    job._unsaved_log[-1].detail = EVIL
    job.save()
    Job.objects.filter(pk=job.pk).update(worker=EVIL)
    asset = add_asset(
        job,
        name=EVIL,
        url=EVIL,
        content_type=EVIL,
        checksum=EVIL,
        storage="default",
        storage_path=EVIL,
    )
    Asset.objects.filter(pk=asset.pk).update(asset_type=EVIL)

    for name, keys in [
        ("job_changelist", []),
        ("job_change", [job.pk]),
        ("job_history", [job.pk]),
        ("job_delete", [job.pk]),
        ("asset_changelist", []),
        ("asset_change", [asset.pk]),
    ]:
        page = as_admin.get(address(name, *keys))
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;alert" in page.text
    failed = make_job(user, "processing", job_type=EVIL)
    for name in ("job_cancel", "job_change"):
        page = as_admin.get(address(name, failed.pk))
        assert page.status_code == 200
        assert "<script>alert" not in page.text


@pytest.mark.parametrize("status", ["half-done", "<b>odd</b>"])
def test_an_unknown_status_is_shown_literally(as_admin, user, handler, status):
    job = make_job(user, "failed", job_type=handler(lambda job: None))
    give_unknown_status(job, status)

    for place in (
        address("job_changelist"),
        address("job_change", job.pk),
        address("job_delete", job.pk),
        address("job_history", job.pk),
    ):
        response = as_admin.get(place)
        assert response.status_code == 200
        assert "<b>odd" not in response.text
    for place in (address("job_changelist"), address("job_change", job.pk)):
        page = as_admin.get(place).text
        assert html.escape(status) in page
        assert "odd_code" in page
    assert offered(as_admin, job) == set()
    for name in ("job_cancel", "job_retry"):
        assert as_admin.post(address(name, job.pk), follow=True).status_code == 200
    assert as_admin.post(address("job_delete", job.pk), {"post": "yes"}).status_code == 302
    assert not Job.objects.exists()


@pytest.mark.parametrize("code", list(FailureCode))
def test_each_failure_code_is_shown_with_its_sentence(as_admin, user, code):
    if code == FailureCode.SOME_ITEMS_FAILED:
        job = make_job(user, "partial")
    else:
        job = make_job(user, "failed", failure_code=code)

    assert f'<span title="{code.label}">{code}</span>' in page_of(as_admin, job)
