import contextlib
import datetime as dt
import inspect
import logging
import math
from decimal import Decimal

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from django_jobs.exceptions import JobCancelled, LeaseLost
from django_jobs.execution import JobContext
from django_jobs.execution.items import Items
from django_jobs.models import Asset, Job
from django_jobs.services import cancel_job
from django_jobs.testing import make_job
from tests.execution.surroundings import everywhere
from tests.naming import readable

at_commit = pytest.mark.django_db(transaction=True)


class RecordingAttempt:
    """Remembers what it is told."""

    cancel_requested = False

    def __init__(self):
        self.reports = []

    def report(self, percent, message, items):
        self.reports.append((percent, message))

    def attach(self, asset):
        return asset


@pytest.fixture
def attempt():
    return RecordingAttempt()


@pytest.fixture
def context(attempt, db):  # the times of a new job are the database's
    job = Job(job_type="report", attempt=2, max_attempts=3)
    return JobContext(job, {"a": 1}, attempt)


def percents(attempt):
    return [percent for percent, _ in attempt.reports]


# -- what a handler knows ----------------------------------------------------------------------


@everywhere
def test_a_handler_knows_its_job(run, user):
    seen = []

    def work(job):
        seen.append((job.id, job.job_type, job.user, job.parameters, job.attempt, job.max_attempts))

    job = run(work, {"a": [1]}, max_attempts=3)

    assert seen == [(job.pk, job.job_type, user, {"a": [1]}, 1, 3)]
    assert type(job.user) is get_user_model()


@at_commit
def test_a_handler_knows_its_deadline(run):
    seen = []
    run(lambda job: seen.append(job.deadline), timeout=60)

    left = seen[0] - timezone.now()
    assert dt.timedelta(seconds=50) < left < dt.timedelta(seconds=61)


def test_a_handler_has_a_logger_that_knows_the_job(context, caplog):
    with caplog.at_level(logging.INFO, "django_jobs.handlers"):
        context.logger.info("read %d rows", 3)

    (record,) = caplog.records
    assert record.getMessage() == "read 3 rows"
    assert (record.job_id, record.job_type, record.attempt) == (str(context.id), "report", 2)


def test_the_public_names_are_these_and_no_others(context):
    names = {name for name in dir(context) if not name.startswith("_")}

    assert names == {
        "alink_asset",
        "asave_asset",
        "attempt",
        "cancel_requested",
        "deadline",
        "failed_items",
        "id",
        "item",
        "items",
        "job_type",
        "link_asset",
        "logger",
        "max_attempts",
        "parameters",
        "raise_if_cancelled",
        "save_asset",
        "track",
        "update_progress",
        "user",
    }


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("update_progress", "(percent, message=None)"),
        ("track", "(iterable, message='', total=None)"),
        ("item", "(name)"),
        ("save_asset", "(name, content, asset_type, content_type=None)"),
        ("link_asset", "(name, url, asset_type)"),
        ("asave_asset", "(name, content, asset_type, content_type=None)"),
        ("alink_asset", "(name, url, asset_type)"),
        ("raise_if_cancelled", "()"),
    ],
)
def test_the_signatures_are_as_documented(context, method, expected):
    parameters = inspect.signature(getattr(context, method)).parameters.values()
    bare = [parameter.replace(annotation=parameter.empty) for parameter in parameters]

    assert str(inspect.Signature(bare)) == expected


# -- progress ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percent", "told"), [(0, 0), (25, 25), (99.9, 99), (100, 100), (Decimal("12.5"), 12)]
)
def test_a_percentage_is_told(context, attempt, percent, told):
    context.update_progress(percent, "reading")

    assert attempt.reports == [(told, "reading")]


def test_progress_never_goes_back(context, attempt):
    for percent in (10, 60, 30, 70):
        context.update_progress(percent)

    assert percents(attempt) == [10, 60, 60, 70]


def test_a_message_is_cleaned_and_cut(context, attempt):
    context.update_progress(1, "a\x00" + "x" * 5000)

    ((_, message),) = attempt.reports
    assert message.startswith("a\ufffdxxx")
    assert len(message) == 200


@pytest.mark.parametrize(
    ("percent", "error"),
    [
        ("50", TypeError),
        (None, TypeError),
        (True, TypeError),
        (101, ValueError),
        (-1, ValueError),
        (math.nan, ValueError),
        (Decimal("NaN"), ValueError),
    ],
    ids=readable,
)
def test_what_is_no_percentage_is_refused(context, attempt, percent, error):
    with pytest.raises(error, match="progress must be a number from 0 to 100"):
        context.update_progress(percent)

    assert attempt.reports == []


@pytest.mark.parametrize(
    "message", [1, b"x", ["x"], object()], ids=["int", "bytes", "list", "object"]
)
def test_what_is_no_text_is_no_message(context, attempt, message):
    with pytest.raises(TypeError, match="the progress message must be a text"):
        context.update_progress(50, message)

    assert attempt.reports == []


@at_commit
def test_a_wrong_report_fails_the_job_and_says_why(run):
    job = run(lambda job: job.update_progress(10, job.user))

    assert job.status == "failed"
    assert job.error_message.startswith("TypeError: the progress message must be a text, not ")
    assert job.progress == 0


# -- track -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [list, tuple, dict.fromkeys, set, range(4).__class__], ids=readable
)
def test_a_collection_is_tracked_to_100(context, attempt, make):
    elements = make(4) if make is range else make(range(4))

    assert list(context.track(elements, "counting")) == [0, 1, 2, 3]
    assert attempt.reports == [
        (0, "counting"),
        (25, None),
        (50, None),
        (75, None),
        (100, None),
    ]


def test_progress_moves_when_an_element_is_done(context, attempt):
    for number in context.track(range(2)):
        assert percents(attempt)[-1] == number * 50


def test_what_is_left_is_shared_out(context, attempt):
    context.update_progress(50)
    list(context.track(range(2)))

    assert percents(attempt) == [50, 50, 75, 100]


def test_two_tracks_do_not_go_back(context, attempt):
    list(context.track(range(2)))
    list(context.track(range(2)))

    assert percents(attempt)[3:] == [100, 100, 100]


def test_an_iterator_of_unknown_length_moves_the_message_only(context, attempt):
    context.update_progress(30)
    list(context.track((number for number in range(3)), "counting"))

    assert attempt.reports[1:] == [
        (30, "counting"),
        (30, "counting 1"),
        (30, "counting 2"),
        (30, "counting 3"),
    ]


def test_without_a_message_the_number_is_the_message(context, attempt):
    list(context.track(iter([1, 2])))

    assert attempt.reports == [(0, None), (0, "1"), (0, "2")]


def test_the_length_of_an_iterator_may_be_told(context, attempt):
    list(context.track(iter(range(4)), "counting", total=4))

    assert percents(attempt) == [0, 25, 50, 75, 100]


@pytest.mark.parametrize(
    "elements", [[], (), iter([]), {}], ids=["list", "tuple", "iterator", "dict"]
)
def test_nothing_to_track_moves_nothing(context, attempt, elements):
    assert list(context.track(elements, "counting")) == []
    assert attempt.reports == [(0, "counting")]


class WithoutALength(list):
    def __len__(self):
        raise OverflowError("too long")


def test_a_length_that_cannot_be_told_is_unknown(context, attempt):
    assert next(iter(context.track(range(10**30)))) == 0
    assert list(context.track(WithoutALength([1, 2]))) == [1, 2]
    assert set(percents(attempt)) == {0}


@pytest.mark.parametrize("total", [0, -1, -100])
def test_a_total_that_makes_no_sense_moves_the_message_only(context, attempt, total):
    assert list(context.track([1, 2], "counting", total=total)) == [1, 2]
    assert attempt.reports == [(0, "counting"), (0, "counting 1"), (0, "counting 2")]


def test_a_total_that_is_too_small_stops_at_100(context, attempt):
    assert list(context.track(range(5), total=2)) == [0, 1, 2, 3, 4]
    assert percents(attempt) == [0, 50, 100, 100, 100, 100]


def test_a_total_that_is_too_large_stops_early(context, attempt):
    list(context.track(range(2), total=4))

    assert percents(attempt) == [0, 25, 50]


def test_a_loop_that_is_left_early_stays_where_it_was(context, attempt):
    for number in context.track(range(4)):
        if number == 2:
            break

    assert percents(attempt) == [0, 25, 50]


def test_what_the_elements_raise_comes_through(context):
    def broken():
        yield 1
        raise OSError("disk error")

    with pytest.raises(OSError, match="disk error"):
        list(context.track(broken()))


@pytest.mark.parametrize("length", [1, 3, 7, 99, 101, 1000])
def test_the_end_of_a_track_is_100(context, attempt, length):
    list(context.track(range(length)))

    assert percents(attempt)[-1] == 100
    assert percents(attempt) == sorted(percents(attempt))


@at_commit
def test_a_queryset_is_tracked(run, user):
    for _ in range(3):
        make_job(user, job_type="other")

    def work(job):
        return [found.job_type for found in job.track(Job.objects.filter(job_type="other"))]

    assert run(work).result == ["other"] * 3


# -- items -------------------------------------------------------------------------------------


def test_an_item_is_counted(context):
    with context.item("a"):
        pass
    with context.item("b"):
        raise ValueError

    assert isinstance(context.items, Items)
    assert (context.items.succeeded, context.items.failed) == (1, 1)


# -- cancelling --------------------------------------------------------------------------------


def test_nobody_has_asked_to_cancel(context):
    assert context.cancel_requested is False
    context.raise_if_cancelled()


def test_somebody_has_asked_to_cancel(context, attempt):
    attempt.cancel_requested = True

    assert context.cancel_requested is True
    with pytest.raises(JobCancelled):
        context.raise_if_cancelled()


@everywhere
def test_a_handler_sees_that_somebody_asked(run):
    seen = []

    def work(job):
        seen.append(job.cancel_requested)
        cancel_job(job.id, actor=None)
        seen.append(job.cancel_requested)
        job.raise_if_cancelled()

    job = run(work)

    assert seen == [False, True]
    assert (job.status, job.failure_code) == ("failed", "cancelled")
    assert job.error_message == "The job was cancelled."


@at_commit
def test_what_a_handler_catches_does_not_hold_up_a_request(run):
    def work(job):
        cancel_job(job.id, actor=None)
        with job.item("a"), contextlib.suppress(Exception):
            job.raise_if_cancelled()

    assert run(work).failure_code == "cancelled"


# -- assets ------------------------------------------------------------------------------------


@everywhere
def test_a_handler_saves_and_links_assets(run):
    def work(job):
        job.save_asset("a.txt", "hello", "text")
        job.link_asset("b", "https://x.org", "page")

    job = run(work)

    assert (job.status, job.error_message) == ("completed", "")
    assert [
        (asset.name, asset.asset_type, asset.attempt) for asset in job.assets.order_by("id")
    ] == [
        ("a.txt", "text", 1),
        ("b", "page", 1),
    ]


@at_commit
def test_a_wrong_asset_fails_the_item_or_the_job(run):
    def work(job):
        with job.item("good"):
            job.save_asset("a.txt", "hello", "text")
        with job.item("bad"):
            job.save_asset("", "hello", "text")

    job = run(work)

    assert job.status == "partial"
    assert "name must be a text of 1 to 255 characters" in job.error_message
    assert Asset.objects.count() == 1


@at_commit
def test_assets_of_an_earlier_attempt_are_replaced_by_name(run):
    def work(job):
        job.save_asset("a.txt", f"attempt {job.attempt}", "text")
        if job.attempt == 1:
            raise ValueError("boom")

    job = run(work, max_attempts=2)

    (asset,) = job.assets.all()
    assert asset.attempt == 2
    assert f"/{job.pk}/2/" in asset.storage_path


@at_commit
def test_no_asset_is_saved_for_an_attempt_that_is_over(run, user):
    raised = []

    def work(job):
        Job.objects.filter(pk=job.id).update(worker="host/machine/2/2/efgh")
        for save in (
            lambda: job.save_asset("a.txt", "hello", "text"),
            lambda: job.link_asset("b", "https://x.org", "page"),
        ):
            try:
                save()
            except LeaseLost as error:
                raised.append(error)

    job = run(work)

    assert len(raised) == 2
    assert Asset.objects.count() == 0
    assert (job.status, job.worker) == ("processing", "host/machine/2/2/efgh")
