import builtins

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.core.management.base import CommandError

from django_jobs.management.commands import prune_jobs as command
from django_jobs.models import Asset, Job
from django_jobs.services.layout import new_path
from django_jobs.testing import make_job
from tests.management.conftest import Terminal
from tests.services.test_files import BrokenStorage, exists, folder, save, use_storage  # noqa: F401
from tests.services.test_pruning import ended

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_prunes_and_says_so(run, user):
    asset = save(ended(user, 31))
    kept = ended(user, 29)

    done = run("prune_jobs", "--older-than", "30d")

    assert (done.lines, done.code) == (["pruned: 1 jobs, 1 assets"], 0)
    assert list(Job.objects.all()) == [kept]
    assert not exists(asset)


@pytest.mark.parametrize("option", ["--dry-run"])
def test_a_dry_run_only_says_what_would_go(run, user, option):
    asset = save(ended(user, 31))
    ended(user, 31, "failed")
    ended(user, 29)
    Asset.objects.update(file_size=2048)

    done = run("prune_jobs", "--older-than", "30d", option)

    assert done.lines == ["would prune: 2 jobs, 1 assets (2.0 KB)"]
    assert Job.objects.count() == 3
    assert exists(asset)


@pytest.mark.parametrize(
    ("age", "left"),
    [("30d", 1), ("30", 1), ("4w", 0), ("720h", 1), ("0", 0), ("0d", 0), ("29.5 d", 1), ("28d", 0)],
)
def test_ages(run, user, age, left):
    ended(user, 29)
    run("prune_jobs", "--older-than", age)
    assert Job.objects.count() == left


@pytest.mark.parametrize("age", ["", "-1d", "30x", "d", "1e3", "nan", "inf", "9" * 400, "٣d"])
def test_what_is_no_age_is_refused(run, user, age):
    ended(user, 90)
    with pytest.raises(CommandError, match="is no duration like 30d, 12h or 90m"):
        run("prune_jobs", f"--older-than={age}")
    assert Job.objects.exists()


def test_an_age_beyond_all_time_is_refused(run, db):
    with pytest.raises(CommandError, match="nothing so long ago"):
        run("prune_jobs", "--older-than", "9999999d")


def test_an_age_or_the_setting_must_be_given(run, user, settings):
    ended(user, 31)
    with pytest.raises(CommandError, match="--older-than 30d, or set RETENTION_DAYS"):
        run("prune_jobs")

    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "RETENTION_DAYS": 30}
    assert run("prune_jobs").lines == ["pruned: 1 jobs, 0 assets"]


def test_states_and_types_may_be_given_several_times(run, user):
    for kind in ("a", "b", "c"):
        for status in ("failed", "partial", "completed"):
            ended(user, 31, status, job_type=kind)

    options = ["--status", "failed", "--status", "partial", "--job-type", "a", "--job-type", "b"]
    assert run("prune_jobs", "--older-than", "30d", *options).lines == ["pruned: 4 jobs, 0 assets"]


@pytest.mark.parametrize("status", ["queued", "processing", "done"])
def test_a_state_that_is_no_end_is_refused(run, db, status):
    with pytest.raises(CommandError, match="invalid choice"):
        run("prune_jobs", "--older-than", "30d", "--status", status)


def test_what_is_kept_is_said(run, user, monkeypatch):
    monkeypatch.setattr(command, "prune_jobs", lambda **_: command.Pruned(jobs=1, assets=2, kept=3))
    assert run("prune_jobs", "--older-than", "0").lines == [
        "pruned: 1 jobs, 2 assets; kept, since something needs or holds them: 3"
    ]


def test_on_a_terminal_there_is_a_bar(run, user):
    for _ in range(3):
        ended(user, 31)

    done = run("prune_jobs", "--older-than", "30d", stdout=Terminal())

    assert "━" in done.text
    assert "3 of 3" in done.text
    assert done.lines[-1].endswith("pruned: 3 jobs, 0 assets")


def test_without_rich_there_is_none(run, user, monkeypatch):
    real = builtins.__import__

    def without_rich(name, *args):
        if name.startswith("rich"):
            raise ImportError
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    ended(user, 31)

    done = run("prune_jobs", "--older-than", "30d", stdout=Terminal())

    assert done.lines == ["pruned: 1 jobs, 0 assets"]


# -- orphans ---------------------------------------------------------------------------------------


@pytest.fixture
def orphan(user, folder):  # noqa: F811
    """The path of a file without an asset."""
    return storages["django_jobs"].save(
        new_path(make_job(user, "completed"), "a.txt"), ContentFile(b"a")
    )


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--dry-run", "--delete")])
def test_orphans_are_listed(run, orphan, options):
    done = run("prune_jobs", "--orphans", *options)

    assert done.lines == [orphan, "orphans in django_jobs: 1; --delete removes them"]
    assert storages["django_jobs"].exists(orphan)
    assert Job.objects.exists()


def test_orphans_are_removed_if_that_is_wanted(run, orphan):
    done = run("prune_jobs", "--orphans", "--delete")

    assert done.lines == [orphan, "orphans in django_jobs: 1, removed: 1"]
    assert not storages["django_jobs"].exists(orphan)
    assert Job.objects.exists()
    assert run("prune_jobs", "--orphans").lines[-1].startswith("orphans in django_jobs: 0")


def test_orphans_that_cannot_be_removed_are_told(run, orphan, folder, settings):  # noqa: F811
    use_storage(settings, "tests.services.test_files.BrokenStorage", folder)

    with pytest.raises(CommandError, match="1 could not be removed"):
        run("prune_jobs", "--orphans", "--delete")


def test_another_storage_can_be_named(run, orphan, settings):
    settings.STORAGES = {**settings.STORAGES, "old": settings.STORAGES["django_jobs"]}
    settings.STORAGES["django_jobs"] = {"BACKEND": "django.core.files.storage.InMemoryStorage"}

    assert run("prune_jobs", "--orphans").lines[-1].startswith("orphans in django_jobs: 0")
    assert run("prune_jobs", "--orphans", "--storage", "old").lines[0] == orphan


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--orphans", "--older-than", "3d"], "--older-than is about jobs"),
        (["--orphans", "--status", "failed"], "--status is about jobs"),
        (["--orphans", "--job-type", "a"], "--job-type is about jobs"),
        (["--delete"], "--delete goes with --orphans only"),
        (["--storage", "default"], "--storage goes with --orphans only"),
        (["--orphans", "--storage", "nowhere"], "there is no 'nowhere' in STORAGES"),
        (
            ["--orphans", "--storage", "staticfiles"],
            "files of the storage 'staticfiles' cannot be listed",
        ),
    ],
)
def test_options_that_make_no_sense_together(run, db, options, message):
    with pytest.raises(CommandError, match=message):
        run("prune_jobs", *options)
