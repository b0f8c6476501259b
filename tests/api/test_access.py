"""Every endpoint, for everybody: one table."""

import uuid

import pytest

from django_jobs.handlers import register_job_type, registry
from django_jobs.models import JobStatus
from django_jobs.testing import make_job
from tests.api.callers import Caller, allow, attach_file, create_staff, url
from tests.conftest import create_user

pytestmark = pytest.mark.django_db

# Who calls: nobody; somebody with jobs of their own; the owner, without and with the permission of
# the job type; staff, who ask for the owner's with ?user=, without view_job, with it, and with
# change_job and delete_job too. After the slash: how many objects a list shows.
TABLE = """
                        anonymous  stranger  barred  owner  staff   viewer  operator
job-list        GET     403        200/0     200/3   200/3  200/0   200/3   200/3
job-list        POST    403        202       403     202    202     202     202
job-detail      GET     403        404       200     200    404     200     200
job-detail      DELETE  403        404       204     204    404     403     204
job-cancel      POST    403        404       202     202    404     403     202
job-retry       POST    403        404       403     202    404     403     202
job-transitions GET     403        404       200/3   200/3  404     200/3   200/3
job-assets      GET     403        404       200/1   200/1  404     200/1   200/1
asset-list      GET     403        200/0     200/1   200/1  200/0   200/1   200/1
asset-detail    GET     403        404       200     200    404     200     200
asset-download  GET     403        404       200     200    404     200     200
job-type-list   GET     403        200/1     200/0   200/1  200/1   200/1   200/1
job-type-detail GET     403        200       404     200    200     200     200
"""
HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
CELLS = [
    pytest.param(name, method, who, answer, id=f"{name}-{method}-{who}")
    for name, method, *answers in ROWS
    for who, answer in zip(HEAD, answers, strict=True)
]
PERMISSIONS = {
    "staff": [],
    "viewer": ["view_job"],
    "operator": ["view_job", "change_job", "delete_job"],
}


class World:
    """One owner with a running, a failed and a completed job, the last with a file; one caller."""

    def __init__(self, who):
        registry._types = {}
        self.type = register_job_type("export").name
        self.owner = create_user()
        self.caller = Caller(self._user(who))
        self.asked = {"user": str(self.owner.pk)} if who in PERMISSIONS else {}
        self.running = self._job(JobStatus.PROCESSING)
        self.failed = self._job(JobStatus.FAILED)
        self.completed = self._job(JobStatus.COMPLETED)
        self.asset = attach_file(self.completed)

    def _user(self, who):
        if who == "anonymous":
            return None
        if who in PERMISSIONS:
            return create_staff("add_job", *PERMISSIONS[who])
        if who == "stranger":
            return allow(create_user(), "add_job")
        return allow(self.owner, "add_job") if who == "owner" else self.owner

    def _job(self, status):
        return make_job(self.owner, status, job_type=self.type)

    def call(self, name, method):
        keys = {
            "job-cancel": self.running.pk,
            "job-retry": self.failed.pk,
            "job-type-detail": self.type,
            "asset-detail": self.asset.pk,
            "asset-download": self.asset.pk,
        }
        key = keys.get(name, None if name.endswith("-list") else self.completed.pk)
        if method == "GET":
            return self.caller.get(name, key, **self.asked)
        if method == "DELETE":
            return self.caller.delete(name, key, query_params=self.asked)
        body = {"job_type": self.type} if name == "job-list" else None
        return self.caller.post(name, key, body, query_params=self.asked)


@pytest.mark.parametrize(("name", "method", "who", "answer"), CELLS)
def test_who_gets_what(name, method, who, answer):
    status, _, shown = answer.partition("/")

    response = World(who).call(name, method)

    assert response.status_code == int(status)
    if shown:
        body = response.json()
        assert len(body["results"] if isinstance(body, dict) else body) == int(shown)


@pytest.mark.parametrize("who", ["stranger", "staff"])
@pytest.mark.parametrize(("name", "method"), [row[:2] for row in ROWS if row[3] == "404"])
def test_what_is_somebody_elses_is_answered_like_what_does_not_exist(name, method, who):
    world = World(who)
    foreign = world.call(name, method)
    for made in (world.running, world.failed, world.completed, world.asset):
        made.pk = uuid.uuid4()
    absent = world.call(name, method)

    assert foreign.status_code == absent.status_code == 404
    assert foreign.content == absent.content
    assert foreign.headers == absent.headers


@pytest.mark.parametrize("method", ["put", "patch"])
@pytest.mark.parametrize("name", ["job-list", "job-detail", "asset-detail", "job-type-detail"])
def test_nothing_can_be_edited(name, method):
    world = World("owner")
    key = {"job-list": None, "job-type-detail": world.type}.get(name, world.completed.pk)
    response = getattr(world.caller.client, method)(url(name, key), {"status": "queued"})

    assert response.status_code == 405
