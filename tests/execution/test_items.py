import threading

import pytest
from django.db import transaction

from django_jobs.exceptions import JobFailed
from django_jobs.execution import Partial
from django_jobs.execution import items as items_module
from django_jobs.execution.items import MAX_SHOWN_NAME_CHARS, Items
from django_jobs.models import Job
from django_jobs.services.failed_items import IN_ROW, MAX_ERROR_CHARS
from tests.execution.surroundings import everywhere
from tests.host_jobs.models import Job as Written
from tests.naming import readable

at_commit = pytest.mark.django_db(transaction=True)


class UnreadableError(Exception):
    def __str__(self):
        raise SystemExit("no text")


class Unreadable:
    def __str__(self):
        raise RuntimeError("no name")


def counts(job):
    return job.items_total, job.items_succeeded, job.items_failed


def some_items(good, bad):
    def work(job):
        for number in range(good + bad):
            with job.item(f"item {number}"):
                if number >= good:
                    raise ValueError(f"odd {number}")
        return {"good": good}

    return work


# -- how the job ends --------------------------------------------------------------------------


@everywhere
def test_without_items_a_job_is_completed(run):
    job = run(some_items(0, 0))

    assert (job.status, job.result, counts(job)) == ("completed", {"good": 0}, (0, 0, 0))


@everywhere
def test_a_job_whose_items_all_went_well_is_completed(run):
    job = run(some_items(3, 0))

    assert (job.status, job.result, counts(job)) == ("completed", {"good": 3}, (3, 3, 0))
    assert (job.error_message, job.failure_code) == ("", "")


@everywhere
def test_a_job_with_some_failed_items_is_partial(run):
    job = run(some_items(2, 1))

    assert (job.status, job.result, counts(job)) == ("partial", {"good": 2}, (3, 2, 1))
    assert job.failure_code == "some_items_failed"
    assert job.error_message == "1 of 3 items failed.\nitem 2: ValueError: odd 2"


@everywhere
def test_a_job_whose_items_all_failed_is_failed(run):
    job = run(some_items(0, 2), max_attempts=3)

    assert (job.status, job.result, counts(job)) == ("failed", None, (2, 0, 2))
    assert (job.failure_code, job.attempt) == ("all_items_failed", 1)
    assert job.error_message == (
        "2 of 2 items failed.\nitem 0: ValueError: odd 0\nitem 1: ValueError: odd 1"
    )


@at_commit
def test_only_the_first_errors_are_told(run):
    job = run(some_items(1, 8))

    assert job.error_message.splitlines() == [
        "8 of 9 items failed.",
        *[f"item {number}: ValueError: odd {number}" for number in range(1, 6)],
        "and 3 more",
    ]


@at_commit
def test_a_part_that_the_handler_returns_wins(run):
    def work(job):
        some_items(1, 1)(job)
        return Partial({"mine": 1}, "as I say")

    job = run(work)

    assert (job.status, job.result) == ("partial", {"mine": 1})
    assert (job.error_message, counts(job)) == ("as I say", (2, 1, 1))


@at_commit
def test_a_part_without_a_text_tells_of_the_items(run):
    def work(job):
        some_items(0, 1)(job)
        return Partial("result")

    job = run(work)

    assert (job.status, job.result) == ("partial", "result")
    assert job.error_message == "1 of 1 item failed.\nitem 0: ValueError: odd 0"


@at_commit
def test_a_part_without_a_text_and_without_items_gets_a_sentence(run):
    assert run(lambda job: Partial()).error_message == "Some items of the job failed."


@at_commit
def test_a_result_that_cannot_be_stored_wins_over_items(run):
    def work(job):
        some_items(1, 1)(job)
        return {1, 2}

    job = run(work)

    assert (job.status, job.failure_code) == ("failed", "invalid_result")
    assert counts(job) == (2, 1, 1)


@at_commit
def test_an_error_outside_of_the_items_fails_the_job(run):
    def work(job):
        some_items(1, 1)(job)
        raise ValueError("outside")

    job = run(work)

    assert (job.status, job.error_message) == ("failed", "ValueError: outside")
    assert counts(job) == (2, 1, 1)


# -- what goes through an item -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (JobFailed("out of paper"), "out of paper"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (SystemExit(2), "SystemExit: 2"),
        (GeneratorExit(), "GeneratorExit"),
        (BaseException("base"), "BaseException: base"),
    ],
    ids=lambda value: type(value).__name__,
)
@everywhere
def test_some_errors_fail_the_job_and_not_the_item(run, error, message):
    def work(job):
        with job.item("first"):
            pass
        with job.item("second"):
            raise error

    job = run(work)

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert job.error_message == message
    assert counts(job) == (1, 1, 0)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("odd"), "ValueError: odd"),
        (StopIteration("x"), "StopIteration: x"),
        (UnreadableError(), "UnreadableError: (its text cannot be read)"),
        (ValueError("a\x00\ud800"), "ValueError: a\ufffd\ufffd"),
        (ValueError("token=abc"), "ValueError: token=***"),
        (ValueError(), "ValueError"),
    ],
    ids=lambda value: type(value).__name__,
)
@everywhere
def test_any_other_error_fails_the_item(run, error, reason):
    def work(job):
        with job.item("good"):
            pass
        with job.item("bad"):
            raise error

    job = run(work)

    assert (job.status, counts(job)) == ("partial", (2, 1, 1))
    assert job.error_message == f"1 of 2 items failed.\nbad: {reason}"


@pytest.mark.parametrize(
    ("name", "shown"),
    [(7, "7"), (None, "None"), ("", ""), ("a\x00b", "a\ufffdb"), (("a", 1), "('a', 1)")],
)
@at_commit
def test_anything_is_a_name(run, name, shown):
    def work(job):
        with job.item("good"):
            pass
        with job.item(name):
            raise ValueError("odd")

    assert run(work).error_message == f"1 of 2 items failed.\n{shown}: ValueError: odd"


@at_commit
def test_a_name_that_cannot_be_read_does_not_hide_the_failure(run):
    def work(job):
        with job.item("good"):
            pass
        with job.item(Unreadable()):
            raise ValueError("odd")

    job = run(work)

    assert (job.status, counts(job)) == ("partial", (2, 1, 1))
    assert job.error_message == "1 of 2 items failed.\nUnreadable: ValueError: odd"


@at_commit
def test_names_and_reasons_are_cut(run):
    def work(job):
        with job.item("good"):
            pass
        for _ in range(9):
            with job.item("n" * 5000):
                raise ValueError("r" * 5000)

    lines = run(work).error_message.splitlines()

    assert len(lines) == 7
    assert max(len(line) for line in lines) <= MAX_SHOWN_NAME_CHARS + MAX_ERROR_CHARS + 2


@everywhere
def test_an_item_may_have_a_transaction_of_its_own(run):
    def work(job):
        for number in range(3):
            with job.item(number), transaction.atomic():
                Written.objects.create(user=job.user, title=str(number))
                if number == 1:
                    raise ValueError("odd")

    assert run(work).status == "partial"
    assert sorted(Written.objects.values_list("title", flat=True)) == ["0", "2"]


@at_commit
def test_items_may_be_nested(run):
    def work(job):
        with job.item("outer"), job.item("inner"):
            raise ValueError("odd")

    assert counts(run(work)) == (2, 1, 1)


# -- counts ------------------------------------------------------------------------------------


@at_commit
def test_counts_can_be_watched_while_the_job_runs(run, monkeypatch):
    monkeypatch.setattr("django_jobs.execution.immediate.FLUSH_EVERY", 0)
    seen = []

    def work(job):
        for number in range(3):
            with job.item(number):
                if number == 1:
                    raise ValueError("odd")
            seen.append(counts(Job.objects.get(pk=job.id)))

    run(work)

    assert seen == [(1, 1, 0), (2, 1, 1), (3, 2, 1)]


def test_counts_are_right_with_several_threads():
    items = Items()

    def work():
        for number in range(500):
            with items.item(number):
                if number % 5 == 0:
                    raise ValueError("odd")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (items.total, items.succeeded, items.failed) == (2000, 1600, 400)
    assert len(items.first_failed) == 100
    with items.whole_list() as listed:
        assert len(listed.readlines()) == 400


def test_no_items_have_nothing_to_tell():
    assert Items().total == 0


# -- which failed ------------------------------------------------------------------------------


def failing(items, count, error="odd"):
    for number in range(count):
        with items.item(number):
            raise ValueError(error)


@everywhere
def test_the_failed_items_are_in_the_row(run):
    job = run(some_items(1, 2))

    assert job.failed_items == [
        {"name": "item 1", "error": "ValueError: odd 1"},
        {"name": "item 2", "error": "ValueError: odd 2"},
    ]
    assert not job.assets.exists()


@at_commit
def test_names_are_kept_as_they_are_and_reasons_are_redacted(run):
    def work(job):
        with job.item("good"):
            pass
        with job.item("/srv/photos/a.jpg"):
            raise ValueError("no file /srv/photos/a.jpg at https://me:hunter2@host")

    job = run(work)

    [item] = job.failed_items
    assert item == {
        "name": "/srv/photos/a.jpg",
        "error": "ValueError: no file …/a.jpg at https://***@host",
    }
    assert "/srv" not in job.error_message


@pytest.mark.parametrize("name", ["n" * 501, "a\x00b", "\ud800", Unreadable()], ids=readable)
def test_a_name_that_cannot_be_kept_is_marked(name):
    items = Items()
    with items.item(name):
        raise ValueError("odd")

    [item] = items.first_failed
    assert item["cut"] is True
    assert len(item["name"]) <= 500


@at_commit
def test_a_job_that_fails_otherwise_keeps_what_is_known(run):
    def work(job):
        some_items(1, 1)(job)
        raise OSError("out of paper")

    job = run(work)

    assert (job.status, job.failure_code) == ("failed", "handler_error")
    assert [item["name"] for item in job.failed_items] == ["item 1"]


@at_commit
def test_each_attempt_begins_without_failed_items(run):
    seen = []

    def work(job):
        seen.append(Job.objects.get(pk=job.id).failed_items)
        if job.attempt == 1:
            some_items(1, 1)(job)
            raise OSError("again")

    job = run(work, max_attempts=2, retry_delay=0)

    assert (job.status, job.failed_items, seen) == ("completed", [], [[], []])


def test_a_list_that_fits_in_the_row_is_no_file():
    items = Items()
    failing(items, IN_ROW)

    with items.whole_list() as listed:
        assert listed is None


def test_the_list_takes_memory_up_to_a_bound_and_is_closed():
    items = Items()
    failing(items, 6000, "x" * 300)

    with items.whole_list() as listed:
        assert listed._rolled
        assert len(listed.readlines()) == 6000
    assert listed.closed
    failing(items, 3)  # a thread that lives on
    with items.whole_list() as listed:
        assert listed is None


class FullDisk:
    def writelines(self, lines):
        raise OSError("No space left on device")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def seek(self, place):
        pass


def test_a_full_disk_costs_the_list_and_not_the_item(monkeypatch, caplog):
    monkeypatch.setattr(items_module.tempfile, "SpooledTemporaryFile", lambda **_: FullDisk())
    items = Items()
    failing(items, IN_ROW + 2)

    assert (items.failed, len(items.first_failed)) == (IN_ROW + 2, IN_ROW)
    with items.whole_list() as listed:
        assert listed is None
    assert caplog.text.count("the list of failed items cannot be kept") == 1
