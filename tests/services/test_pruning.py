import datetime as dt
import threading

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models import ProtectedError
from django.db.models.signals import pre_delete

from django_jobs.models import Asset, Job, JobStatus, JobTransition, clock
from django_jobs.services import pruning, retry_job
from django_jobs.services.pruning import Pruned, prunable, prune_jobs
from django_jobs.testing import make_job
from tests.services.test_files import exists, files_in, folder, save  # noqa: F401
from tests.stored import Statements, stored

pytestmark = pytest.mark.django_db(transaction=True)

MONTH = dt.timedelta(days=30)


def ended(user, days_ago, status="completed", **fields):
    job = make_job(user, status, **fields)
    age(job, days_ago)
    return job


def age(job, days):
    moment = clock.now() - dt.timedelta(days=days)
    ends = {"completed_at": moment} if job.is_terminal else {}
    Job.objects.filter(pk=job.pk).update(created_at=moment, **ends)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(pruning, "BATCH", 2)


def test_what_ended_long_ago_goes_with_all_that_belongs_to_it(user, folder):  # noqa: F811
    old, young = ended(user, 31), ended(user, 29)
    gone, kept = save(old), save(young)

    assert prune_jobs(MONTH) == Pruned(jobs=1, assets=1)

    assert list(Job.objects.all()) == [young]
    assert list(Asset.objects.all()) == [kept]
    assert set(JobTransition.objects.values_list("job_id", flat=True)) == {young.pk}
    assert [exists(gone), exists(kept)] == [False, True]


@pytest.mark.parametrize("days", [0, 30])
def test_live_jobs_are_never_deleted(user, days):
    live = [make_job(user, status) for status in ("queued", "processing")]
    for job in live:
        age(job, 90)
    before = [stored(job) for job in live]
    ended(user, 90)

    assert prune_jobs(dt.timedelta(days=days)).jobs == 1

    assert [stored(job) for job in live] == before


def test_it_is_the_end_that_counts(user):
    job = ended(user, 90)
    Job.objects.filter(pk=job.pk).update(completed_at=clock.now())

    assert prune_jobs(MONTH) == Pruned()


def test_the_age_is_by_the_clock_of_the_database(user, monkeypatch):
    ended(user, 29)
    ahead = clock.now() + dt.timedelta(days=2)
    monkeypatch.setattr(clock, "now", lambda using=None: ahead)

    assert prune_jobs(MONTH) == Pruned(jobs=1)


@pytest.mark.parametrize(
    ("narrowed", "left"),
    [
        ({}, []),
        ({"statuses": ["failed"]}, ["a completed", "b completed", "b partial"]),
        ({"statuses": ["failed", "partial"]}, ["a completed", "b completed"]),
        ({"job_types": ["a"]}, ["b completed", "b partial"]),
        ({"job_types": ["a", "b"], "statuses": [JobStatus.COMPLETED]}, ["a failed", "b partial"]),
        ({"job_types": ["c"]}, ["a completed", "a failed", "b completed", "b partial"]),
    ],
)
def test_states_and_types_narrow_it_down(user, narrowed, left):
    for kind in ("a failed", "a completed", "b partial", "b completed"):
        job_type, status = kind.split()
        ended(user, 31, status, job_type=job_type)

    prune_jobs(MONTH, **narrowed)

    assert sorted(f"{job.job_type} {job.status}" for job in Job.objects.all()) == left


def test_without_an_age_the_setting_counts(user, settings):
    ended(user, 31)
    with pytest.raises(ValueError, match="RETENTION_DAYS"):
        prune_jobs()

    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "RETENTION_DAYS": 31.5}
    assert prune_jobs().jobs == 0
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "RETENTION_DAYS": 0}
    assert prune_jobs().jobs == 1


def test_batches_are_short_and_each_job_is_met_once(user, small_batches, folder):  # noqa: F811
    moment = clock.now() - dt.timedelta(days=31)
    jobs = [ended(user, 31) for _ in range(7)]
    Job.objects.filter(pk__in=[job.pk for job in jobs[:4]]).update(completed_at=moment)
    for job in jobs:
        save(job)
    told = []

    def on_batch(total):
        assert not connection.in_atomic_block
        told.append((total.jobs, total.assets, len(files_in(folder))))

    assert prune_jobs(MONTH, on_batch=on_batch) == Pruned(jobs=7, assets=7)
    assert told == [(2, 2, 5), (4, 4, 3), (6, 6, 1), (7, 7, 0)]


def test_it_never_selects_what_is_large(user):
    for _ in range(3):
        save(ended(user, 31))

    with Statements() as statements:
        prune_jobs(MONTH)

    assert not any("parameters" in query["sql"] for query in statements.captured_queries)
    # candidates, surplus; rows locked; rows, assets and retries; log, links, assets and jobs
    # deleted; which files are needed; further candidates
    assert len(statements.sent) <= 12, statements.sent


@pytest.mark.skipif(connection.vendor != "sqlite", reason="others look at statistics, too")
def test_the_candidates_come_from_an_index(user):
    rows = prunable(MONTH).order_by("completed_at", "pk").values_list("completed_at", "pk")

    assert "django_jobs_completed" in rows[:1000].explain()


def test_many_assets_of_a_job_go_in_several_transactions(
    user,
    monkeypatch,
    small_batches,
    folder,  # noqa: F811
):
    monkeypatch.setattr(pruning, "ASSETS", 3)
    job = ended(user, 31)
    for number in range(8):
        save(job, str(number))
    lengths = []
    monkeypatch.setattr(
        "django_jobs.services.files.remove_unneeded", lambda files, _: lengths.append(len(files))
    )

    prune_jobs(MONTH)

    assert not Asset.objects.exists()
    assert lengths == [2, 2, 1, 3]


def test_a_retry_outlives_what_it_repeats(user, handler):
    kind = handler(lambda job: None)
    original = ended(user, 31, "failed", job_type=kind)
    again = retry_job(original.pk, actor=user)
    chain = ended(user, 40, "failed")
    link = ended(user, 35, "failed", retry_of=chain)

    assert prune_jobs(MONTH).jobs == 3

    again.refresh_from_db()
    assert again.retry_of is None
    assert not Job.objects.filter(pk=link.pk).exists()


def test_what_something_else_needs_is_kept_and_the_rest_goes(user, small_batches, caplog):
    jobs = [ended(user, 40 - number) for number in range(5)]
    needed = jobs[1]

    def protect(instance, **_):
        if instance.pk == needed.pk:
            raise ProtectedError("an invoice needs it", {instance})

    pre_delete.connect(protect, sender=Job)
    try:
        assert prune_jobs(MONTH) == Pruned(jobs=4, kept=1)
    finally:
        pre_delete.disconnect(protect, sender=Job)

    assert list(Job.objects.all()) == [needed]
    assert f"job {needed.pk} is kept" in caplog.text


def test_what_is_rolled_back_keeps_rows_and_files(user):
    asset = save(ended(user, 31))

    with transaction.atomic():
        assert prune_jobs(MONTH).jobs == 1
        transaction.set_rollback(True)

    assert Asset.objects.get() == asset
    assert exists(asset)


# -- beside others ---------------------------------------------------------------------------------


@pytest.mark.skipif(connection.vendor == "sqlite", reason="it has one writer, and no row locks")
def test_a_row_that_is_held_is_passed_over(user):
    held, other = ended(user, 31), ended(user, 31)
    is_held, is_over = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            Job.objects.select_for_update().get(pk=held.pk)
            is_held.set()
            is_over.wait(30)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert is_held.wait(30)
        assert prune_jobs(MONTH) == Pruned(jobs=1, kept=1)
    finally:
        is_over.set()
        thread.join()
    assert list(Job.objects.all()) == [held]
    assert not Job.objects.filter(pk=other.pk).exists()


ERRORS = {
    "mysql": OperationalError(1213, "Deadlock found when trying to get lock"),
    "sqlite": OperationalError("database is locked"),
}


@pytest.fixture
def lost_against():
    """Let the next deletions of jobs end with such an error."""

    def lose(error, times):
        left = iter([error] * times)

        def refuse(execute, sql, *args):
            if sql.startswith("DELETE") and "django_jobs_job" in sql:
                for error in left:
                    raise error
            return execute(sql, *args)

        return connection.execute_wrapper(refuse)

    return lose


@pytest.mark.parametrize("vendor", ERRORS)
def test_the_victim_of_a_deadlock_tries_again(user, lost_against, vendor):
    asset = save(ended(user, 31))

    with lost_against(ERRORS[vendor], 3):
        assert prune_jobs(MONTH) == Pruned(jobs=1, assets=1)

    assert not exists(asset)


def test_it_gives_up_in_the_end(user, lost_against, monkeypatch):
    monkeypatch.setattr(pruning, "PATIENCE", 0.05)
    asset = save(ended(user, 31))

    with (
        lost_against(ERRORS["mysql"], 10**6),
        pytest.raises(OperationalError, match="Deadlock"),
    ):
        prune_jobs(MONTH)

    assert exists(asset)


def test_another_error_is_raised_at_once(user, lost_against):
    save(ended(user, 31))

    with lost_against(OperationalError("disk full"), 1), pytest.raises(OperationalError):
        prune_jobs(MONTH)
    assert prune_jobs(MONTH).jobs == 1


def test_two_at_a_time_do_not_disturb_each_other(user, monkeypatch):
    monkeypatch.setattr(pruning, "BATCH", 5)
    for _ in range(40):
        ended(user, 31)
    results, errors = [], []

    def prune():
        try:
            results.append(prune_jobs(MONTH))
        except Exception as error:  # noqa: BLE001
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=prune) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert sum(result.jobs for result in results) == 40
    assert not Job.objects.exists()
