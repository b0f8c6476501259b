import pytest

from django_jobs.models.attempts import NOBODY, backoff, is_ours, new_external_worker


def test_every_outside_driver_has_a_name_of_its_own():
    names = {new_external_worker() for _ in range(100)}
    assert len(names) == 100


@pytest.mark.parametrize(
    ("worker", "ours"),
    [("", False), (NOBODY, False), ("external:0123456789abcdef", False), ("host/m/1/2/abcd", True)],
)
def test_our_workers_are_told_from_outside_drivers_and_nobody(worker, ours):
    assert is_ours(worker) is ours


def test_the_wait_between_attempts_doubles(settings):
    settings.DJANGO_JOBS = {"TICK": 1}
    for attempt, wanted in [(1, 10), (2, 20), (3, 40), (6, 320)]:
        waits = [backoff(10, attempt) for _ in range(100)]
        assert wanted * 0.8 <= min(waits) < max(waits) <= wanted * 1.2


@pytest.mark.parametrize("attempt", [10, 100, 100_000])
def test_the_wait_between_attempts_is_an_hour_at_most(attempt):
    assert backoff(1000, attempt) == 3600


@pytest.mark.parametrize("retry_delay", [0, 0.001])
def test_a_worker_has_time_to_be_gone_before_the_next_attempt(settings, retry_delay):
    settings.DJANGO_JOBS = {"TICK": 2}
    assert backoff(retry_delay, 1) == 2
    settings.DJANGO_JOBS = {"TICK": 60}
    assert backoff(retry_delay, 1) == 5
