import datetime as dt
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.apps import apps
from django.db import connection, migrations, models
from django.db.migrations.writer import MigrationWriter
from django.db.models.query import QuerySet

from django_jobs.models import Asset, Job, JobStatus, fields
from django_jobs.models.fields import DatabaseTimeField, StatusField, UUID7Field, uuid7, uuid7_at
from django_jobs.testing import make_job


def in_thread(function, *args):
    """Run ``function`` in another thread and return what it raised."""

    def run():
        try:
            function(*args)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).exception()


def assign(job, status):
    job.status = status


class Interrupted(QuerySet):
    """A query in the middle of which ``meanwhile`` is called."""

    meanwhile = None

    def get(self, *args, **kwargs):
        found = super().get(*args, **kwargs)
        Interrupted.meanwhile()
        return found


@pytest.fixture
def reload_interrupted(monkeypatch):
    """Reload a job and call ``meanwhile`` after the row was read, before it is taken over."""

    def reload(job, meanwhile):
        monkeypatch.setattr(Interrupted, "meanwhile", staticmethod(meanwhile))
        job.refresh_from_db(from_queryset=Interrupted(Job))

    return reload


# -- keys ------------------------------------------------------------------------------------------


def test_a_key_is_a_uuid_of_version_7():
    key = uuid7()
    assert (key.version, key.variant) == (7, uuid.RFC_4122)


def test_a_key_tells_when_it_was_made(monkeypatch):
    monkeypatch.setattr(fields, "_last_stamp", 0)  # other tests have clocks that are ahead
    before = time.time_ns() // 1_000_000
    milliseconds = uuid7().int >> 80
    assert before <= milliseconds <= time.time_ns() // 1_000_000 + 1


def test_keys_only_grow_in_a_process():
    keys = [uuid7() for _ in range(10_000)]
    assert keys == sorted(set(keys))


def test_keys_grow_while_the_clock_stands_or_goes_back(monkeypatch):
    moments = iter([time.time_ns() + 10**9] * 5 + [time.time_ns()] * 5)
    monkeypatch.setattr(fields, "_last_stamp", 0)
    monkeypatch.setattr(fields.time, "time_ns", lambda: next(moments))
    keys = [uuid7() for _ in range(10)]
    assert keys == sorted(set(keys))


def test_keys_of_several_threads_are_different():
    with ThreadPoolExecutor(4) as pool:
        made = set(pool.map(lambda _: uuid7(), range(8_000)))
    assert len(made) == 8_000


@pytest.mark.parametrize("is_aware", [True, False])
def test_keys_made_for_a_moment_sort_as_moments_do(settings, is_aware):
    settings.USE_TZ = is_aware
    moment = dt.datetime(2027, 3, 4, 5, 6, 7, 890123, dt.UTC if is_aware else None)
    moments = [moment + dt.timedelta(microseconds=each) for each in range(2000)]
    keys = [uuid7_at(each, place) for each in moments for place in range(3)]
    assert keys == sorted(keys)
    assert keys[0].int >> 80 == int(moment.timestamp() * 1000)
    assert {(key.version, key.variant) for key in keys} == {(7, uuid.RFC_4122)}


@pytest.mark.django_db
def test_keys_of_rows_follow_the_clock_of_the_database(monkeypatch):
    ahead = dt.timedelta(hours=1)
    monkeypatch.setattr(fields.clock, "offset", lambda alias: ahead)
    monkeypatch.setattr(fields, "_last_stamp", 0)
    milliseconds = Asset().pk.int >> 80
    assert abs(milliseconds - (time.time() + 3600) * 1000) < 60_000


# -- migrations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["Job", "JobTransition", "Asset"])
def test_migrations_import_nothing_of_ours(model):
    operations = [
        migrations.AddField(model, field.name, field.clone())
        for field in apps.get_model("django_jobs", model)._meta.local_fields
        if isinstance(field, (UUID7Field, DatabaseTimeField, StatusField))
    ]
    migration = type("Migration", (migrations.Migration,), {"operations": operations})
    text = MigrationWriter(migration("0001", "django_jobs"), include_header=False).as_string()
    assert operations
    assert "django_jobs" not in text
    assert "default=" not in text.replace("default='queued'", "")


def test_the_fields_are_what_migrations_say_they_are():
    class Plain(models.Model):
        id = models.UUIDField(primary_key=True, editable=False)

        class Meta:
            app_label = "plain"

    plain, ours = Plain._meta.pk, Job._meta.pk
    assert ours.db_type(connection) == plain.db_type(connection)


# -- the protection of the state -------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("status", JobStatus)
def test_the_class_gives_the_field_and_an_unsaved_job_its_state(status):
    assert Job.status.field is Job._meta.get_field("status")
    assert Job(status=status).status == status


@pytest.mark.django_db
def test_the_protection_is_off_for_nobody_after_a_reload(user):
    job, other = make_job(user), make_job(user)
    job.refresh_from_db()
    for each in (job, other):
        with pytest.raises(AttributeError):
            each.status = "completed"


@pytest.mark.django_db
@pytest.mark.parametrize("names", [None, ["status"], ["priority"]])
def test_the_protection_is_on_after_a_reload_of_a_deleted_row(user, names):
    job, other = make_job(user), make_job(user)
    Job.objects.filter(pk=job.pk).delete()
    with pytest.raises(Job.DoesNotExist):
        job.refresh_from_db(fields=names)
    for each in (job, other):
        with pytest.raises(AttributeError):
            each.status = "completed"
        assert each.status == "queued"


@pytest.mark.django_db
def test_the_protection_is_on_after_loading_the_deferred_state_of_a_deleted_row(user):
    job = Job.objects.defer("status").get(pk=make_job(user).pk)
    Job.objects.filter(pk=job.pk).delete()
    with pytest.raises(Job.DoesNotExist):
        str(job.status)
    with pytest.raises(AttributeError):
        job.status = "completed"


@pytest.mark.django_db
def test_the_protection_of_other_jobs_is_on_during_a_reload(user, reload_interrupted):
    job, other = make_job(user), make_job(user)
    refusals = []

    def meanwhile():
        with pytest.raises(AttributeError) as refusal:
            other.status = "completed"
        refusals.append(refusal.value)

    reload_interrupted(job, meanwhile)
    assert len(refusals) == 1
    assert other.status == "queued"


@pytest.mark.django_db
def test_another_thread_cannot_assign_the_state_during_a_reload(user, reload_interrupted):
    job, other = make_job(user), make_job(user)
    answers = []

    def meanwhile():
        answers.extend(in_thread(assign, each, "completed") for each in (job, other))

    reload_interrupted(job, meanwhile)
    assert [type(answer) for answer in answers] == [AttributeError, AttributeError]
    assert (job.status, other.status) == ("queued", "queued")


@pytest.mark.django_db(transaction=True)
def test_two_threads_may_reload_the_same_job(user, reload_interrupted):
    job = make_job(user)
    elsewhere = Job.objects.get(pk=job.pk)
    elsewhere.start()
    elsewhere.save()
    answers = []

    reload_interrupted(job, lambda: answers.append(in_thread(job.refresh_from_db)))

    assert answers == [None]
    assert job.status == "processing"
    with pytest.raises(AttributeError):
        job.status = "completed"


@pytest.mark.django_db
def test_a_reload_may_be_nested_in_another(user, reload_interrupted):
    job = make_job(user)
    elsewhere = Job.objects.get(pk=job.pk)
    elsewhere.start()
    elsewhere.save()

    reload_interrupted(job, lambda: job.refresh_from_db(fields=["status"]))

    assert job.status == "processing"
    with pytest.raises(AttributeError):
        job.status = "completed"
