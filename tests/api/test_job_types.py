import pytest
from rest_framework import serializers

from django_jobs.handlers import AUTHENTICATED, register_job_type, registry
from tests.api.callers import allow, url

pytestmark = pytest.mark.django_db


class Thumbnails(serializers.Serializer):
    size = serializers.IntegerField(min_value=16, max_value=2048, default=320)
    format = serializers.ChoiceField(choices=["png", "jpeg"], help_text="Of the results")
    since = serializers.DateField(required=False)
    secret = serializers.CharField(write_only=True)
    shown = serializers.CharField(read_only=True)
    hidden = serializers.HiddenField(default=1)


@pytest.fixture(autouse=True)
def no_other_types(own_registry):
    registry._types = {}


def names(caller):
    return [found["name"] for found in caller.get("job-type-list").json()]


def test_only_the_types_that_the_caller_may_start_are_shown(me, user):
    register_job_type("b", permission=AUTHENTICATED)
    register_job_type("a")
    register_job_type("c", permission=lambda someone: False)

    assert names(me) == ["b"]
    assert [me.get("job-type-detail", name).status_code for name in "abc"] == [404, 200, 404]


def test_the_permission_of_a_type_counts_when_it_is_given(me, user):
    register_job_type("a")
    register_job_type("b", permission="django_jobs.change_job")

    allow(user, "add_job")

    assert names(me) == ["a"]


def test_a_type_looks_like_this(me):
    register_job_type(
        "thumbnails",
        parameters=Thumbnails,
        queue="slow",
        timeout=300,
        title="Thumbnails",
        description="One for each photo",
        permission=AUTHENTICATED,
    )

    body = me.get("job-type-detail", "thumbnails").json()

    parameters = body.pop("parameters")
    assert body == {
        "name": "thumbnails",
        "title": "Thumbnails",
        "description": "One for each photo",
        "queue": "slow",
        "timeout": 300.0,
        "max_attempts": 1,
        "retry_failed_items": False,
        "urls": {"self": f"http://testserver{url('job-type-detail', 'thumbnails')}"},
    }
    assert {name: info["type"] for name, info in parameters.items()} == {
        "size": "integer",
        "format": "choice",
        "since": "date",
        "secret": "string",
    }
    assert (parameters["size"]["min_value"], parameters["size"]["required"]) == (16, False)
    assert [choice["value"] for choice in parameters["format"]["choices"]] == ["png", "jpeg"]
    assert parameters["format"]["help_text"] == "Of the results"


def test_a_type_without_limit_and_parameters(me):
    register_job_type("any", timeout=None, permission=AUTHENTICATED)

    body = me.get("job-type-detail", "any").json()

    assert (body["timeout"], body["parameters"], body["title"]) == (None, None, "any")


@pytest.mark.parametrize("name", ["a.b", "a/b", "a b", "é", "50%", "a?b", "a#b", "list/", "x" * 50])
def test_any_name_of_a_type_can_be_linked(me, name):
    register_job_type(name, permission=AUTHENTICATED)

    (listed,) = me.get("job-type-list").json()

    assert me.client.get(listed["urls"]["self"]).json() == listed
    assert listed["name"] == name


@pytest.mark.parametrize("name", ["none", "%00", "\x00", "x" * 3000, "a/b/c"], ids=ascii)
def test_an_unknown_type_is_not_found(me, name):
    response = me.get("job-type-detail", name)

    assert (response.status_code, response.json()["code"]) == (404, "not_found")


def test_types_cannot_be_changed(me):
    for method in ("post", "put", "patch", "delete"):
        assert getattr(me.client, method)(url("job-type-list")).status_code == 405
