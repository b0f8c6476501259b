import json
import re

import pytest
from rest_framework import serializers

from django_jobs.handlers import AUTHENTICATED, register_job_type, registry


class Parameters(serializers.Serializer):
    folder = serializers.CharField()
    size = serializers.IntegerField(default=320)
    shown = serializers.CharField(read_only=True)
    owner = serializers.HiddenField(default="x")


def may_start(user):
    return True


@pytest.fixture(autouse=True)
def no_other_types(monkeypatch):
    monkeypatch.setattr(registry, "_types", {})


def cells(line):
    return re.split(r"\s{2,}", line)


def test_without_types_there_is_the_heading(run):
    [heading] = run("job_types").lines
    assert cells(heading) == [
        "name",
        "queue",
        "timeout",
        "attempts",
        "permission",
        "driven by",
        "parameters",
        "at",
    ]


def test_a_type_with_everything(run, handler):
    handler(
        lambda job: None,
        "thumbnails",
        parameters=Parameters,
        queue="slow",
        timeout=90,
        max_attempts=3,
        permission=AUTHENTICATED,
    )
    *found, place = cells(run("job_types").lines[1])
    assert found == [
        "thumbnails",
        "slow",
        "90 s",
        "3",
        "AUTHENTICATED",
        "our workers",
        "folder, size?",
    ]
    assert re.fullmatch(r".*tests/management/test_job_types\.py:\d+", place)


def test_a_type_with_nothing_has_the_settings(run, handler, settings):
    settings.DJANGO_JOBS = {**settings.DJANGO_JOBS, "DEFAULT_TIMEOUT": None}
    handler(lambda job: None, "report")
    found = cells(run("job_types").lines[1])[:-1]
    assert found == [
        "report",
        "default",
        "none",
        "1",
        "django_jobs.add_job",
        "our workers",
        "any",
    ]


def test_a_type_that_something_else_drives(run):
    register_job_type("import", permission=may_start)
    found = cells(run("job_types").lines[1])
    assert found[4:6] == ["may_start()", "something else"]


def test_types_are_listed_by_name(run, handler):
    for name in ("b", "a", "c"):
        handler(lambda job: None, name)
    assert [cells(line)[0] for line in run("job_types").lines[1:]] == ["a", "b", "c"]


def test_places_below_the_current_folder_are_shortened(run, handler, monkeypatch, tmp_path):
    handler(lambda job: None, "report")
    monkeypatch.chdir(tmp_path)
    assert cells(run("job_types").lines[1])[-1].startswith("/")


def test_as_json(run, handler):
    handler(lambda job: None, "thumbnails", parameters=Parameters, title="Thumbnails")
    register_job_type("import", timeout=None)
    external, handled = json.loads(run("job_types", "--json").text)
    assert (external["name"], external["is_external"]) == ("import", True)
    assert (external["timeout"], external["parameters"]) == (None, None)
    assert handled["parameters"] == [
        {"name": "folder", "type": "CharField", "required": True},
        {"name": "size", "type": "IntegerField", "required": False},
    ]
    assert handled["title"] == "Thumbnails"
    assert re.search(r"test_job_types\.py:\d+$", handled["place"])
