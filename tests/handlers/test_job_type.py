from types import SimpleNamespace

import pytest
from django.contrib.auth.models import AnonymousUser, Permission

from django_jobs.handlers import AUTHENTICATED, job_handler, registry
from tests.naming import readable


def declare(**options):
    job_handler("report", **options)(lambda job: None)
    return registry.get("report")


OPTIONS = [
    ("timeout", "DEFAULT_TIMEOUT", 3600),
    ("queue_timeout", "DEFAULT_QUEUE_TIMEOUT", 86400),
    ("max_attempts", "DEFAULT_MAX_ATTEMPTS", 1),
    ("retry_delay", "DEFAULT_RETRY_DELAY", 10),
]


@pytest.mark.parametrize(("option", "setting", "default"), OPTIONS)
def test_an_option_that_is_not_given_is_the_setting(settings, option, setting, default):
    declared = declare()
    assert getattr(declared, option) == default

    settings.DJANGO_JOBS = {setting: 7}
    assert getattr(declared, option) == 7


@pytest.mark.parametrize(("option", "setting", "default"), OPTIONS)
def test_an_option_that_is_given_is_not_the_setting(settings, option, setting, default):
    settings.DJANGO_JOBS = {setting: 7}

    assert getattr(declare(**{option: 3}), option) == 3


@pytest.mark.parametrize("option", ["timeout", "queue_timeout"])
def test_none_is_no_limit_and_not_the_setting(option):
    assert getattr(declare(**{option: None}), option) is None


@pytest.mark.parametrize(("setting", "option"), [("DEFAULT_TIMEOUT", "timeout")])
def test_a_setting_may_be_no_limit(settings, setting, option):
    settings.DJANGO_JOBS = {setting: None}

    assert getattr(declare(), option) is None


def test_a_type_does_not_change():
    with pytest.raises(AttributeError):
        declare().queue = "other"


def test_the_options_are_readable():
    assert repr(AUTHENTICATED) == "AUTHENTICATED"
    assert "timeout_option=the setting" in repr(declare())


# -- who may start it over the API -------------------------------------------------------------


@pytest.mark.parametrize("permission", ["django_jobs.add_job", AUTHENTICATED, bool], ids=readable)
@pytest.mark.parametrize("visitor", [AnonymousUser(), None, SimpleNamespace()], ids=readable)
def test_nobody_who_is_not_logged_in_may_start_a_job(permission, visitor):
    assert declare(permission=permission).may_be_started_by(visitor) is False


@pytest.mark.django_db
def test_authenticated_lets_every_user_in(user):
    assert declare(permission=AUTHENTICATED).may_be_started_by(user) is True


@pytest.mark.django_db
def test_a_codename_lets_in_who_has_the_permission(user, other_user):
    permission = Permission.objects.get(codename="view_job", content_type__app_label="django_jobs")
    other_user.user_permissions.add(permission)
    declared = declare(permission="django_jobs.view_job")

    assert declared.may_be_started_by(user) is False
    assert declared.may_be_started_by(other_user) is True


@pytest.mark.django_db
def test_by_default_the_permission_to_add_a_job_is_needed(user, other_user):
    permission = Permission.objects.get(codename="add_job", content_type__app_label="django_jobs")
    other_user.user_permissions.add(permission)

    assert declare().may_be_started_by(user) is False
    assert declare().may_be_started_by(other_user) is True


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answer", "expected"), [(True, True), (False, False), (1, True), (None, False)]
)
def test_a_callable_is_asked(user, answer, expected):
    asked = []
    declared = declare(permission=lambda visitor: asked.append(visitor) or answer)

    assert declared.may_be_started_by(user) is expected
    assert asked == [user]
