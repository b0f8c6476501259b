import pytest

from django_jobs.broker import JobBroker

OURS = "django_jobs.broker.JobBroker"


class OurBroker(JobBroker):
    """A host's own version of ours."""


class OtherBroker:
    """Some other broker."""


@pytest.fixture(autouse=True)
def sound(settings):
    """Settings about which no check has anything to say."""
    settings.DJANGO_JOBS = {"ENGINE": "django_q"}
    settings.Q_CLUSTER = {"broker_class": OURS, "orm": "default", "workers": 2, "queue_limit": 2}


@pytest.fixture
def jobs(settings):
    """Set keys of ``DJANGO_JOBS``."""

    def change(**changes):
        settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, **changes}

    return change


@pytest.fixture
def cluster(settings):
    """Set keys of ``Q_CLUSTER``; ``None`` removes one."""

    def change(**changes):
        changed = {**settings.Q_CLUSTER, **changes}
        settings.Q_CLUSTER = {name: value for name, value in changed.items() if value is not None}

    return change


def ids(messages):
    return [message.id.removeprefix("django_jobs.") for message in messages]
