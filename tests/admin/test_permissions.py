"""Every address of the admin x who asks x what the answer is."""

import pytest
from django.test import Client
from django.urls import reverse

from django_jobs.handlers import AUTHENTICATED
from django_jobs.models import Asset, Job
from django_jobs.testing import make_job
from tests.admin.conftest import address, create_staff
from tests.conftest import create_user

pytestmark = pytest.mark.django_db

LOGIN = "login"
WHO = {
    "anonymous": None,
    "user": lambda: create_user(),
    "owner": lambda: None,  # of the jobs; no member of staff
    "staff": lambda: create_staff(),
    "viewer": lambda: create_staff("view_job", "view_asset"),
    "canceller": lambda: create_staff("change_job"),
    "orderer": lambda: create_staff("view_job", "add_job"),
    "only add": lambda: create_staff("add_job"),
    "deleter": lambda: create_staff("view_job", "delete_job"),
    "superuser": lambda: create_user(is_staff=True, is_superuser=True),
}
NOBODY_ELSE = dict.fromkeys(["anonymous", "user", "owner"], LOGIN)
LOOKERS = {
    "staff": 403,
    "viewer": 200,
    "canceller": 200,
    "orderer": 200,
    "only add": 403,
    "deleter": 200,
    "superuser": 200,
}
FORBIDDEN = dict.fromkeys([*LOOKERS], 403)
# what is asked for: (method, name of the address, state of the job), and who gets which answer
TABLE = {
    ("get", "job_changelist", None): LOOKERS,
    ("get", "job_change", "processing"): LOOKERS,
    ("get", "job_history", "processing"): LOOKERS,
    ("get", "job_add", None): FORBIDDEN,
    ("post", "job_add", None): FORBIDDEN,
    ("post", "job_change", "processing"): FORBIDDEN,
    ("get", "job_cancel", "queued"): {**FORBIDDEN, "canceller": 200, "superuser": 200},
    ("post", "job_cancel", "queued"): {**FORBIDDEN, "canceller": 302, "superuser": 302},
    ("get", "job_retry", "failed"): {**FORBIDDEN, "orderer": 200, "superuser": 200},
    ("post", "job_retry", "failed"): {**FORBIDDEN, "orderer": 302, "superuser": 302},
    ("get", "job_retry_failed", "failed"): {**FORBIDDEN, "orderer": 302, "superuser": 302},
    ("post", "job_retry_failed", "failed"): {**FORBIDDEN, "orderer": 302, "superuser": 302},
    ("get", "job_delete", "failed"): {**FORBIDDEN, "deleter": 200, "superuser": 200},
    ("post", "job_delete", "failed"): {**FORBIDDEN, "deleter": 302, "superuser": 302},
    ("get", "job_delete", "processing"): FORBIDDEN,
    ("post", "job_delete", "processing"): FORBIDDEN,
    ("get", "asset_changelist", None): {**FORBIDDEN, "viewer": 200, "superuser": 200},
    ("get", "asset_change", "asset"): {**FORBIDDEN, "viewer": 200, "superuser": 200},
    ("get", "asset_download", "asset"): {**FORBIDDEN, "viewer": 302, "superuser": 302},
    ("post", "asset_change", "asset"): FORBIDDEN,
    ("get", "asset_add", None): FORBIDDEN,
    ("get", "asset_delete", "asset"): FORBIDDEN,
    ("post", "asset_delete", "asset"): FORBIDDEN,
}
CELLS = [
    pytest.param(*asked, who, answer, id=f"{asked[0]} {asked[1]} {asked[2]} by {who}")
    for asked, answers in TABLE.items()
    for who, answer in {**NOBODY_ELSE, **answers}.items()
]


@pytest.mark.parametrize(("method", "name", "state", "who", "answer"), CELLS)
def test_who_gets_which_answer(client, user, handler, method, name, state, who, answer):
    kind = handler(lambda job: None, permission=AUTHENTICATED)
    target = _target(user, kind, state)
    if who != "anonymous":
        client.force_login(user if who == "owner" else WHO[who]())

    place = address(name, *([target.pk] if target else []))
    response = getattr(client, method)(place, {"post": "yes"} if method == "post" else {})

    if answer == LOGIN:
        assert response.status_code == 302
        assert response.url.startswith(reverse("admin:login"))
    else:
        assert response.status_code == answer
    if answer in (LOGIN, 403):
        assert Job.objects.count() == (1 if target else 0)
        if target:
            assert type(target).objects.filter(pk=target.pk).exists()


def _target(user, kind, state):
    if state is None:
        return None
    job = make_job(user, "processing" if state == "asset" else state, job_type=kind)
    if state == "asset":
        return Asset.objects.create(job=job, user=user, asset_type="text", name="a.txt")
    return job


@pytest.mark.parametrize("name", ["job_cancel", "job_retry"])
def test_steering_asks_for_the_csrf_token(admin, user, handler, name):
    job = make_job(
        user, "queued" if name == "job_cancel" else "failed", job_type=handler(lambda job: None)
    )
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin)

    assert strict.post(address(name, job.pk)).status_code == 403
    assert Job.objects.get() == job
    assert Job.objects.get().status == job.status


@pytest.mark.parametrize(
    ("permission", "answer"),
    [(AUTHENTICATED, 302), ("django_jobs.delete_job", 403), (lambda user: False, 403)],
)
def test_a_retry_needs_the_permission_of_the_type_too(as_staff, user, handler, permission, answer):
    job = make_job(user, "failed", job_type=handler(lambda job: None, permission=permission))
    client = as_staff("view_job", "add_job")

    response = client.post(address("job_retry", job.pk))

    assert response.status_code == answer
    assert Job.objects.count() == (2 if answer == 302 else 1)


@pytest.mark.parametrize("name", ["job_change", "job_cancel", "job_retry", "job_delete"])
@pytest.mark.parametrize("key", ["0190163d-8694-739b-aea5-966c26f8ad91", "no-id", "a_2Fb"])
def test_a_job_that_is_not_there_ends_in_a_message(as_admin, name, key):
    response = as_admin.get(address(name, key))

    assert response.status_code == 302
    assert response.url == reverse("admin:index")
