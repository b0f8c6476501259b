import pytest

from django_jobs.conf import JobsSettings, conf

DEFAULTS = {
    "ENGINE": "django_q",
    "QUEUES": ["default"],
    "LEASE": 30,
    "TICK": 5,
    "POLL": 1,
    "NOTIFY": True,
    "GRACE": 5,
    "SHUTDOWN_GRACE": 60,
    "DRAIN": 5,
    "DEFAULT_TIMEOUT": 3600,
    "DEFAULT_QUEUE_TIMEOUT": 86400,
    "DEFAULT_MAX_ATTEMPTS": 1,
    "DEFAULT_RETRY_DELAY": 10,
    "MAX_PARAMETERS_BYTES": 1024 * 1024,
    "MAX_RESULT_BYTES": 1024 * 1024,
    "MAX_JSON_DEPTH": 31,
    "MAX_ERROR_CHARS": 4000,
    "MAX_USER_PRIORITY": 0,
    "STORAGE": "django_jobs",
    "REDIRECT_DOWNLOADS": False,
    "RETENTION_DAYS": None,
    "REDACTOR": "django_jobs.redaction.redact_secrets",
    "SYSTEM_USER": None,
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("DJANGO_JOBS_QUEUES", raising=False)


@pytest.fixture
def nothing_set(settings):
    del settings.DJANGO_JOBS


@pytest.mark.usefixtures("nothing_set")
@pytest.mark.parametrize(("name", "default"), DEFAULTS.items(), ids=list(DEFAULTS))
def test_a_setting_has_a_default(name, default):
    assert getattr(conf, name) == default


def test_every_default_is_in_the_list_above():
    assert {name for name in vars(JobsSettings) if name.isupper()} == set(DEFAULTS)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_setting_is_read_when_it_is_used(settings, name):
    settings.DJANGO_JOBS = {name: "first"}
    assert getattr(conf, name) == "first"

    settings.DJANGO_JOBS = {name: "second"}
    assert getattr(conf, name) == "second"


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError):
        conf.NOT_THERE  # noqa: B018


def test_the_queues_are_those_of_the_setting(settings):
    settings.DJANGO_JOBS = {"QUEUES": ("a", "b")}

    assert conf.queues == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("mail", ["mail"]), ("mail,slow", ["mail", "slow"]), (" mail , ,slow, ", ["mail", "slow"])],
)
def test_the_environment_overrides_the_queues(settings, monkeypatch, value, expected):
    settings.DJANGO_JOBS = {"QUEUES": ["a"]}
    monkeypatch.setenv("DJANGO_JOBS_QUEUES", value)

    assert conf.queues == expected


@pytest.mark.parametrize("value", ["", " ", ",", " , "])
def test_an_empty_environment_overrides_nothing(settings, monkeypatch, value):
    settings.DJANGO_JOBS = {"QUEUES": ["a"]}
    monkeypatch.setenv("DJANGO_JOBS_QUEUES", value)

    assert conf.queues == ["a"]


@pytest.mark.usefixtures("nothing_set")
def test_nobody_can_change_the_default_queues():
    conf.queues.append("more")

    assert conf.queues == ["default"]


@pytest.mark.parametrize(
    ("overrides", "vendor", "seconds"),
    [
        ({}, "postgresql", 30),
        ({}, "mysql", 30),
        ({}, "sqlite", 60),
        ({"LEASE": 30}, "sqlite", 30),
        ({"LEASE": 12}, "sqlite", 12),
        ({"LEASE": 12}, "postgresql", 12),
    ],
)
def test_a_lease_is_longer_on_sqlite_unless_it_is_set(settings, overrides, vendor, seconds):
    settings.DJANGO_JOBS = overrides

    assert conf.lease(vendor) == seconds


@pytest.mark.parametrize("tick", [0.1, 1, 5, 60])
def test_a_keeper_s_statement_takes_less_than_a_tick(settings, tick):
    settings.DJANGO_JOBS = {"TICK": tick}

    assert 0 < conf.io_timeout < tick
    assert conf.io_timeout <= 3


@pytest.mark.parametrize(("tick", "seconds"), [(0.1, 0.1), (5, 5), (60, 5)])
def test_the_least_backoff_is_a_tick_but_never_more_than_five_seconds(settings, tick, seconds):
    settings.DJANGO_JOBS = {"TICK": tick}

    assert conf.least_backoff == seconds
