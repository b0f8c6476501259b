"""Group E, files: each goes with its asset, and nothing else does; none is seen by strangers."""

import datetime as dt
import json
from io import StringIO

import pytest
from django.contrib.auth import get_user_model
from django.core.checks import run_checks
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.urls import reverse

from django_jobs.execution import JobContext
from django_jobs.models import Asset, Job, JobTransition, clock
from django_jobs.services import create_asset, create_job
from django_jobs.services.deletion import delete_job
from django_jobs.services.layout import new_path
from django_jobs.services.pruning import prune_jobs
from django_jobs.testing import make_job, run_due_jobs
from tests.api.callers import Caller
from tests.cases.books import ended
from tests.cases.storing import ON_DISK, files_in, storages_on
from tests.clusters.processes import entries, is_sqlite, wait_for
from tests.clusters.test_lost_workers import worker_of
from tests.conftest import create_user
from tests.stored import row_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def folder(settings, tmp_path):
    """Where the files of jobs lie."""
    settings.STORAGES = {**settings.STORAGES, **storages_on(tmp_path / "files")}
    return tmp_path / "files"


@pytest.fixture
def in_workers(folder):
    """The same for the workers: part of their environment."""

    def environment(backend=ON_DISK):
        return {"TEST_STORAGES": json.dumps(storages_on(folder, backend))}

    return environment


def attach(job, name="a.txt", **fields):
    """Give ``job``, in whatever state it is, a stored file."""
    path = storages["django_jobs"].save(new_path(job, name), ContentFile(b"hello"))
    stored = {"storage": "django_jobs", "storage_path": path, "file_size": 5}
    return Asset.objects.create(
        job=job, user_id=job.user_id, asset_type="text", name=name, **{**stored, **fields}
    )


def as_admin():
    browser = Client()
    browser.force_login(create_user(is_staff=True, is_superuser=True))
    return browser


def admin_page(name, *arguments):
    return reverse(f"admin:django_jobs_{name}", args=arguments)


# -- E02 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["manage.py", "django_jobs/conf.py", "tests/settings.py"])
def test_e02_an_empty_media_root_makes_no_source_downloadable(user, settings, path):
    settings.MEDIA_ROOT = ""
    settings.STORAGES = {**settings.STORAGES, "default": {"BACKEND": ON_DISK}}
    job = make_job(user, "completed")
    asset = Asset.objects.create(
        job=job, user=user, name="x", storage="default", storage_path=path, asset_type="x"
    )
    assert storages["default"].exists(path)  # Django itself would hand it out

    response = Caller(user).get("asset-download", asset.pk)
    page = as_admin().get(admin_page("asset_download", asset.pk))

    assert response.status_code == 503
    assert page.status_code == 302
    for answer in (response, page):
        assert b"import" not in answer.content
        assert path not in answer.content.decode()
    assert path not in Caller(user).get("asset-detail", asset.pk).content.decode()
    found = [message for message in run_checks() if message.id == "django_jobs.E011"]
    assert "MEDIA_ROOT is not set" in found[0].hint
    asset.delete()
    assert storages["default"].exists(path)


# -- E03 -------------------------------------------------------------------------------------------

BAD_URLS = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    " javascript:alert(1)",
    "java\tscript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "//evil.test",
    "/\\evil.test",
    "http://user:pw@h",
]


@pytest.mark.parametrize("url", BAD_URLS, ids=ascii)
def test_e03_a_link_is_http_or_no_link(user, url):
    running = make_job(user, "processing")
    with pytest.raises(ValueError, match="url"):
        create_asset(running.pk, user, "page", url, "", 0)
    end_without_assets(running)
    job = make_job(user, "completed")
    asset = Asset.objects.create(job=job, user=user, name="raw", asset_type="page", url="-")
    with connection.cursor() as cursor:  # by raw SQL
        key = Asset._meta.pk.get_db_prep_value(asset.pk, connection)
        cursor.execute(f"UPDATE {Asset._meta.db_table} SET url = %s WHERE id = %s", [url, key])

    caller = Caller(user)
    assert caller.get("asset-detail", asset.pk).json()["url"] == ""
    assert caller.get("asset-download", asset.pk).status_code == 404
    html = caller.get("asset-detail", asset.pk, headers={"Accept": "text/html"})
    pages = [html.content.decode()]
    for place in (
        admin_page("asset_change", asset.pk),
        admin_page("asset_changelist"),
        admin_page("job_change", job.pk),
    ):
        response = as_admin().get(place)
        assert response.status_code == 200
        pages.append(response.content.decode())
    for page in pages:
        for scheme in ("javascript:", "data:", "vbscript:", "file:", "//evil", "http://user"):
            assert f'href="{scheme}' not in page.lower().replace("\t", "").replace('="\x20', '="')
        assert "<script>alert" not in page


def end_without_assets(running):
    running.refresh_from_db()
    assert not running.assets.exists()
    running.fail("over")
    running.save()


@pytest.mark.parametrize("url", BAD_URLS, ids=ascii)
def test_e03_a_handler_cannot_link_it_either(user, handler, settings, url):
    settings.DJANGO_JOBS = {"ENGINE": "immediate"}

    def link(job: JobContext):
        job.link_asset("bad", url, "page")

    job = create_job(user, handler(link), {})

    job.refresh_from_db()
    assert job.status == "failed"
    assert "http(s)" in job.error_message
    assert "pw" not in job.error_message
    assert not Asset.objects.exists()


# -- E05 -------------------------------------------------------------------------------------------

JOBS, FILES = 100, 3


def delete_each(jobs):
    for job in jobs:
        job.delete()


def delete_by_queryset(jobs):
    Job.objects.filter(pk__in=[job.pk for job in jobs]).delete()


def delete_owners(jobs):
    get_user_model().objects.filter(pk__in={job.user_id for job in jobs}).delete()


def delete_in_the_admin(jobs):
    form = {
        "action": "delete_selected",
        "_selected_action": [str(job.pk) for job in jobs],
        "post": "yes",
    }
    assert as_admin().post(admin_page("job_changelist"), form).status_code == 302


def delete_over_the_api(jobs):
    caller = Caller(jobs[0].user)
    for job in jobs[::2]:
        assert caller.delete("job-detail", job.pk).status_code == 204
    for job in jobs[1::2]:
        delete_job(job.pk)


def prune(jobs):
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(
        completed_at=clock.now() - dt.timedelta(days=31)
    )
    call_command("prune_jobs", "--older-than", "30d", stdout=StringIO())


WAYS = [
    delete_each,
    delete_by_queryset,
    delete_owners,
    delete_in_the_admin,
    delete_over_the_api,
    prune,
]


@pytest.mark.parametrize("way", WAYS)
def test_e05_no_file_is_left_behind_and_no_other_one_is_touched(user, other_user, folder, way):
    kept = make_job(other_user, "completed")
    attach(kept)
    storages["django_jobs"].save("avatars/1.png", ContentFile(b"the host's own"))
    storages["django_jobs"].save(f"{user.pk}/notes.txt", ContentFile(b"the host's own"))
    foreign = files_in(folder)
    jobs = [make_job(user, "completed") for _ in range(JOBS)]
    for job in jobs:
        for number in range(FILES):
            attach(job, f"{number}.txt")
    assert len(files_in(folder)) == JOBS * FILES + len(foreign)

    way(jobs)

    assert files_in(folder) == foreign
    assert list(Job.objects.all()) == [kept]
    assert Asset.objects.count() == 1
    assert set(JobTransition.objects.values_list("job_id", flat=True)) == {kept.pk}


# -- E06 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_e06_what_is_rolled_back_keeps_rows_and_files(user, folder, way):
    job = make_job(user, "completed")
    asset = attach(job)

    with transaction.atomic():
        way([job])
        assert not Asset.objects.exists()
        transaction.set_rollback(True)

    assert Asset.objects.get() == asset
    assert files_in(folder) == [asset.storage_path]


def test_e06_a_file_whose_row_is_rolled_back_is_removed(cluster, user, notes, folder, in_workers):
    with cluster(workers=1, **in_workers()):
        job = create_job(user, "rolls-back-what-it-stored", {"entries": str(notes)})
        failed = wait_for(lambda: ended(job))
    assert (failed.status, failed.error_message) == ("failed", "ValueError: no good")
    # in a worker, assets outlive a rollback, but for SQLite with its one writer
    assert Asset.objects.count() == (0 if is_sqlite() else 1)
    assert files_in(folder) == list(Asset.objects.values_list("storage_path", flat=True))


def test_e06_a_rollback_around_a_job_leaves_a_file_that_is_found(user, folder, handler, settings):
    settings.DJANGO_JOBS = {"ENGINE": "immediate"}
    with transaction.atomic():
        create_job(user, handler(lambda job: job.save_asset("a", b"a", "x") and None), {})
        run_due_jobs()
        assert Asset.objects.exists()
        transaction.set_rollback(True)

    assert not Job.objects.exists()
    [left] = files_in(folder)
    assert found_orphans() == [left]
    call_command("prune_jobs", "--orphans", "--delete", stdout=StringIO())
    assert files_in(folder) == []


def found_orphans():
    output = StringIO()
    call_command("prune_jobs", "--orphans", stdout=output)
    return output.getvalue().splitlines()[:-1]


def test_e06_a_worker_that_is_killed_leaves_a_file_that_is_found(
    cluster, user, notes, folder, in_workers
):
    with cluster(workers=1, **in_workers()):
        job = create_job(user, "is-killed-between-file-and-row", {"entries": str(notes)})
        lost = wait_for(lambda: ended(job))
    assert lost.failure_code == "worker_lost"
    assert not Asset.objects.exists()
    assert found_orphans() == files_in(folder) != []


def test_e06_a_worker_without_its_lease_adds_nothing_and_leaves_nothing(
    cluster, user, notes, waiting, gate, told, folder, in_workers
):
    with cluster(workers=1, **in_workers()) as running:
        job = create_job(user, "outlives-its-row", {**waiting, "told": str(told)})
        worker_of(job, notes)
        job.delete()
        wait_for(lambda: "attempt 1 is over" in running.output(), what="its keeper noticed")
        gate.touch()
        wait_for(lambda: told.exists() and len(told.read_text().splitlines()) == 3)
    assert told.read_text().splitlines()[0] == "file LeaseLost"
    assert not Asset.objects.exists()
    assert files_in(folder) == []


def test_e06_the_files_of_a_repeated_attempt_are_replaced_by_name(
    cluster, user, notes, folder, in_workers
):
    with cluster(workers=1, **in_workers()):
        job = create_job(user, "stores-in-each-attempt", {"entries": str(notes)})
        assert wait_for(lambda: ended(job)).status == "completed"
    asset = Asset.objects.get()
    assert (asset.name, asset.attempt) == ("report.txt", 2)
    wait_for(lambda: len(files_in(folder)) == 1)
    assert (folder / asset.storage_path).read_text() == "attempt 2"


# -- E08 -------------------------------------------------------------------------------------------


def test_e08_a_file_that_is_lost_breaks_no_page(user, folder):
    job = make_job(user, "completed")
    asset = attach(job)
    (folder / asset.storage_path).unlink()

    caller, browser = Caller(user), as_admin()
    for name, key in (
        ("job-detail", job.pk),
        ("job-assets", job.pk),
        ("asset-list", None),
        ("asset-detail", asset.pk),
    ):
        assert caller.get(name, key).status_code == 200
    missing = caller.get("asset-download", asset.pk)
    assert missing.status_code == 404
    assert missing.json() == {
        "detail": f"The file of the asset {asset.pk} is missing.",
        "code": "asset_file_missing",
    }
    for place in (
        admin_page("asset_changelist"),
        admin_page("asset_change", asset.pk),
        admin_page("job_change", job.pk),
    ):
        assert browser.get(place).status_code == 200
    response = browser.get(admin_page("asset_download", asset.pk), follow=True)
    assert "The file of this asset is missing." in response.content.decode()
    assert caller.delete("job-detail", job.pk).status_code == 204


# -- E09 -------------------------------------------------------------------------------------------


def test_e09_retention_never_removes_a_live_job(cluster, user, notes, waiting, gate):
    with cluster(workers=1):
        running = create_job(user, "wait", waiting)
        worker_of(running, notes)
        queued = create_job(user, "note", {"entries": str(notes)}, queue="elsewhere")
        yesterday, long_ago = (make_job(user, "completed") for _ in range(2))
        long_before = clock.now() - dt.timedelta(days=90)
        Job.objects.all().update(created_at=long_before)
        for job, days in ((yesterday, 1), (long_ago, 60)):
            moment = clock.now() - dt.timedelta(days=days)
            Job.objects.filter(pk=job.pk).update(completed_at=moment)
            JobTransition.objects.filter(job=job, to_status="completed")._raw_delete("default")
            log_end(job, moment)

        assert prune_jobs(dt.timedelta(days=30)).jobs == 1
        assert set(Job.objects.all()) == {running, queued, yesterday}
        assert prune_jobs(dt.timedelta(0)).jobs == 1
        assert set(Job.objects.all()) == {running, queued}

        assert row_of(running)["status"] == "processing"
        gate.touch()
        assert wait_for(lambda: ended(running)).status == "completed"
    with cluster(workers=1, DJANGO_JOBS_QUEUES="default,elsewhere"):
        assert wait_for(lambda: ended(queued)).status == "completed"
    assert len(entries(notes)) == 2


def log_end(job, moment):
    """Write the last line of a log anew, at another moment."""
    JobTransition.objects.create(
        job=job,
        from_status="processing",
        to_status="completed",
        attempt=job.attempt,
        worker=job.worker,
        created_at=moment,
    )


# -- E11 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_e11_a_storage_that_cannot_delete_loses_no_track_of_the_file(
    user, folder, settings, caplog, way
):
    job = make_job(user, "completed")
    asset, key = attach(job), job.pk
    settings.STORAGES = {
        **settings.STORAGES,
        **storages_on(folder, "tests.cases.storing.CannotDelete"),
    }

    way([job])  # no error: 204, or a page that says it was done

    assert not Job.objects.exists()
    assert f"job {key}: {asset.storage_path}" in caplog.text
    assert "the storage is away" in caplog.text
    assert found_orphans() == [asset.storage_path]
    settings.STORAGES = {**settings.STORAGES, **storages_on(folder)}
    call_command("prune_jobs", "--orphans", "--delete", stdout=StringIO())
    assert files_in(folder) == []


def test_e11_a_storage_that_cannot_save_is_for_the_handler_to_know(
    cluster, user, notes, folder, in_workers
):
    with cluster(workers=1, **in_workers("tests.cases.storing.CannotSave")):
        parameters = {"entries": str(notes)}
        uncaught = create_job(user, "stores", parameters)
        caught = create_job(user, "stores-and-goes-on", parameters)
        failed, done = (wait_for(lambda job=job: ended(job)) for job in (uncaught, caught))
    assert (failed.status, failed.failure_code) == ("failed", "handler_error")
    assert failed.error_message == "OSError: the storage is away"
    assert (done.status, done.result) == ("completed", {"error": "the storage is away"})
    assert not Asset.objects.exists()
    assert files_in(folder) == []


def test_e11_a_storage_that_cannot_be_read_is_not_a_file_that_is_lost(user, folder, monkeypatch):
    job = make_job(user, "completed")
    asset = attach(job)

    def refuse(self, name, mode="rb"):
        raise PermissionError(13, "Permission denied", f"/srv/secret/{name}")

    monkeypatch.setattr("django.core.files.storage.FileSystemStorage._open", refuse)

    response = Caller(user).get("asset-download", asset.pk)
    assert response.status_code == 503
    assert "secret" not in response.content.decode()
    page = as_admin().get(admin_page("asset_download", asset.pk), follow=True)
    assert page.status_code == 200
    assert "cannot be read just now" in page.content.decode()


# -- large files -----------------------------------------------------------------------------------


def test_e_a_large_file_takes_little_memory(cluster, user, notes, folder, in_workers):
    with cluster(workers=1, **in_workers()):
        parameters = {"entries": str(notes), "megabytes": 200}
        job = create_job(user, "stores-much", parameters)
        done = wait_for(lambda: ended(job), 60)
    assert done.status == "completed", done.error_message
    assert done.result["size"] == 200 << 20
    assert done.result["memory"] < 24 << 20
    asset = Asset.objects.get()
    assert (folder / asset.storage_path).stat().st_size == asset.file_size == 200 << 20
