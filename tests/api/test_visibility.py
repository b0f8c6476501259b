import uuid

import pytest
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session

from django_jobs.testing import make_job
from tests.api.callers import Caller, allow, create_staff
from tests.conftest import create_user

pytestmark = pytest.mark.django_db

HAS_NUMBERS = get_user_model()._meta.pk.get_internal_type() == "AutoField"


def shown(caller, **query):
    return {result["id"] for result in caller.get("job-list", **query).json()["results"]}


def test_staff_with_the_permission_see_those_they_ask_for(viewer, user, other_user):
    theirs, own = make_job(user), make_job(viewer.user)
    make_job(other_user)

    assert shown(viewer) == {str(own.pk)}
    assert shown(viewer, user="") == {str(own.pk)}
    assert shown(viewer, user=user.pk) == {str(theirs.pk)}
    assert viewer.get("job-detail", theirs.pk).status_code == 404
    assert viewer.get("job-detail", theirs.pk, user=user.pk).status_code == 200
    assert viewer.get("job-detail", theirs.pk, user=other_user.pk).status_code == 404


@pytest.mark.parametrize("who", ["user with the permission", "staff without", "inactive staff"])
def test_for_everybody_else_the_parameter_is_ignored(user, who):
    somebody = {
        "user with the permission": lambda: allow(create_user(), "view_job"),
        "staff without": lambda: create_staff("change_job", "delete_job", "view_asset"),
        "inactive staff": lambda: allow(create_user(is_staff=True, is_active=False), "view_job"),
    }[who]()
    theirs, own = make_job(user), make_job(somebody)
    caller = Caller(somebody)

    for asked in (user.pk, "nonsense", "\x00", "9" * 100, ""):
        assert shown(caller, user=asked) == {str(own.pk)}
    assert caller.get("job-detail", theirs.pk, user=user.pk).status_code == 404


def test_superusers_see_everybody(user):
    job = make_job(user)
    caller = Caller(create_user(is_staff=True, is_superuser=True))

    assert shown(caller, user=user.pk) == {str(job.pk)}
    assert caller.delete("job-detail", job.pk, query_params={"user": user.pk}).status_code == 409


@pytest.mark.parametrize("name", ["job-list", "asset-list"])
@pytest.mark.parametrize("asked", ["nonsense", "\x00", "-", "1.5", " ", "' OR 1=1"], ids=ascii)
def test_what_cannot_be_a_user_is_a_bad_request(viewer, name, asked):
    response = viewer.get(name, user=asked)

    assert response.status_code == 400
    assert response.json() == {"user": ["This is not the key of a user."]}


@pytest.mark.skipif(not HAS_NUMBERS, reason="users have no numbers here")
@pytest.mark.parametrize("asked", [10**30, "9" * 5000, -(10**30)], ids=lambda x: str(x)[:9])
def test_a_number_that_no_database_holds_is_a_bad_request(viewer, asked):
    assert viewer.get("job-list", user=asked).status_code == 400


def test_a_key_that_is_a_text_may_hold_no_nul(viewer, monkeypatch):
    monkeypatch.setattr("django_jobs.api.visibility.get_user_model", lambda: Session)

    assert viewer.get("job-list", user="\x00").status_code == 400


def test_an_absent_user_has_no_jobs(viewer):
    absent = 2**31 - 1 if HAS_NUMBERS else uuid.uuid4()

    assert shown(viewer, user=absent) == set()


def test_own_jobs_need_no_permission_of_the_admin(me, user):
    job = make_job(user)

    assert me.post("job-cancel", job.pk).status_code == 200
    assert me.delete("job-detail", job.pk).status_code == 204


@pytest.mark.parametrize(
    ("permission", "answers"), [("change_job", [202, 403]), ("delete_job", [403, 204])]
)
def test_staff_may_do_to_others_what_they_may_do(user, permission, answers):
    caller = Caller(create_staff("view_job", permission))
    asked = {"user": user.pk}
    running, done = make_job(user, "processing"), make_job(user, "completed")

    cancelled = caller.post("job-cancel", running.pk, query_params=asked)
    deleted = caller.delete("job-detail", done.pk, query_params=asked)

    assert [cancelled.status_code, deleted.status_code] == answers


def test_without_view_job_the_other_permissions_reach_nobody(user):
    caller = Caller(create_staff("change_job", "delete_job"))
    job = make_job(user, "completed")

    assert caller.delete("job-detail", job.pk, query_params={"user": user.pk}).status_code == 404
