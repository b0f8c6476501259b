import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management.base import CommandError
from rest_framework import serializers

from django_jobs.management import watching
from django_jobs.models import Job, JobTransition
from django_jobs.services import (
    create_asset,
    mark_completed,
    mark_failed,
    transition_status,
    update_progress,
)
from tests.conftest import create_user
from tests.management.conftest import Terminal

pytestmark = pytest.mark.django_db(transaction=True)


class Size(serializers.Serializer):
    width = serializers.IntegerField()
    height = serializers.IntegerField(max_value=10)


class Parameters(serializers.Serializer):
    title = serializers.CharField()
    size = Size()
    days = serializers.ListField(child=serializers.DateField(), default=list)


@pytest.fixture
def naps(monkeypatch):
    """What happens while the command waits: one of these functions in each sleep."""
    steps = []

    def sleep(_seconds):
        assert steps, "it waits for ever"
        steps.pop(0)()

    monkeypatch.setattr(watching, "time", SimpleNamespace(sleep=sleep))
    return steps


@pytest.fixture
def answers(monkeypatch):
    """What the person at the terminal says; an exception class is raised."""
    given = []

    def answer():
        said = given.pop(0)
        if isinstance(said, type):
            raise said
        return said

    monkeypatch.setattr("builtins.input", answer)
    return given


def interrupt():
    raise KeyboardInterrupt


def only_job():
    return Job.objects.get()


# -- ordering --------------------------------------------------------------------------------------


def test_it_orders_a_job_and_prints_its_id(run, user, login, external_type):
    done = run("run_job", external_type, "--user", login, "--parameters", '{"a": [1]}')
    job = only_job()
    assert (done.text, done.code) == (f"{job.pk}\n", 0)
    assert (job.user, job.job_type, job.parameters, job.status) == (
        user,
        external_type,
        {"a": [1]},
        "queued",
    )


def test_queue_and_priority(run, login, external_type):
    run("run_job", external_type, "--user", login, "--queue", "slow", "--priority", "-7")
    assert (only_job().queue, only_job().priority) == ("slow", -7)


def test_the_user_may_be_named_by_key(run, user, other_user, external_type):
    run("run_job", external_type, "--user", other_user.pk)
    assert only_job().user == other_user


def test_a_login_comes_before_a_key(run, user, other_user, external_type, django_user_model):
    field = django_user_model.USERNAME_FIELD
    django_user_model.objects.filter(pk=other_user.pk).update(**{field: str(user.pk)})
    run("run_job", external_type, "--user", user.pk)
    assert only_job().user == other_user


@pytest.mark.parametrize("name", ["nobody", "999999", ""])
def test_an_unknown_user(run, external_type, name):
    with pytest.raises(CommandError, match="There is no user with the"):
        run("run_job", external_type, "--user", name)


def test_a_user_is_needed(run, external_type):
    with pytest.raises(CommandError, match="--user"):
        run("run_job", external_type)


def test_an_unknown_type(run, login):
    with pytest.raises(CommandError, match="There is no type of job called 'no-such'"):
        run("run_job", "no-such", "--user", login)
    assert not Job.objects.exists()


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "nope"])
def test_parameters_that_are_not_json(run, login, external_type, text):
    with pytest.raises(CommandError, match="--parameters is not JSON"):
        run("run_job", external_type, "--user", login, "--parameters", text)
    assert not Job.objects.exists()


@pytest.mark.parametrize("text", ["[]", "1", '"a"'])
def test_parameters_that_are_no_object(run, login, external_type, text):
    with pytest.raises(CommandError, match="An object with named values is needed"):
        run("run_job", external_type, "--user", login, "--parameters", text)


def test_parameters_that_are_not_valid_are_told_field_by_field(run, login, handler):
    job_type = handler(lambda job: None, parameters=Parameters)
    given = {"size": {"width": "x", "height": 11}, "days": ["2024-01-01", "never"]}
    with pytest.raises(CommandError) as raised:
        run("run_job", job_type, "--user", login, "--parameters", json.dumps(given))
    heading, *lines = str(raised.value).splitlines()
    assert heading == "The parameters are not valid:"
    assert sorted(line.strip().partition(":")[0] for line in lines) == [
        "days.1",
        "size.height",
        "size.width",
        "title",
    ]
    assert "  title: This field is required." in lines


@pytest.mark.parametrize(
    ("option", "value"), [("--priority", "101"), ("--queue", " "), ("--priority", "high")]
)
def test_other_options_that_are_not_valid(run, login, external_type, option, value):
    with pytest.raises(CommandError, match=option.strip("-")):
        run("run_job", external_type, "--user", login, option, value)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_everything_may_live_in_another_database(run, settings, handler):
    settings.DATABASE_ROUTERS = ["tests.routers.AllElsewhere"]
    login = create_user().get_username()
    done = run("run_job", handler(lambda job: 7), "--user", login, "--wait")
    assert "result: 7" in done.lines
    assert Job.objects.using("other").get().status == "completed"
    assert not Job.objects.using("default").exists()


# -- waiting ---------------------------------------------------------------------------------------


def test_the_outcome_of_a_job_that_ran_at_once(run, login, handler):
    def report(job):
        job.save_asset("a.txt", "hello", "text")
        job.link_asset("b", "https://example.org/b", "link")
        return {"naïve": True}

    done = run("run_job", handler(report), "--user", login, "--wait")
    assert done.code == 0
    stored = only_job().assets.get(name="a.txt")
    assert done.lines == [
        str(only_job().pk),
        "100 % completed",
        "outcome: completed",
        'result: {"naïve": true}',
        "assets:",
        f"  a.txt (5 bytes): default:{stored.storage_path}",
        "  b (0 bytes): https://example.org/b",
    ]


def test_an_asset_on_disk_is_shown_by_its_path(run, login, handler, settings, tmp_path):
    settings.STORAGES = {
        **settings.STORAGES,
        "django_jobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": tmp_path},
        },
    }
    job_type = handler(lambda job: job.save_asset("a.txt", "hello", "text") and None)
    done = run("run_job", job_type, "--user", login, "--wait")
    path = done.lines[-1].partition("): ")[2]
    assert path.startswith(str(tmp_path))
    assert Path(path).read_text() == "hello"


def test_a_job_that_fails_exits_1(run, login, handler):
    def fail(job):
        raise ValueError("no such report")

    done = run("run_job", handler(fail), "--user", login, "--wait")
    assert done.code == 1
    assert done.lines[-2:] == [
        "outcome: failed (handler_error)",
        "message: ValueError: no such report",
    ]


def test_a_job_of_which_some_items_fail_exits_3(run, login, handler):
    def some(job):
        for number in job.track(range(3)):
            with job.item(f"item {number}"):
                1 / number

    done = run("run_job", handler(some), "--user", login, "--wait")
    assert done.code == 3
    assert "outcome: partial (some_items_failed)" in done.lines
    assert "items: 3 in all, 2 succeeded, 1 failed" in done.lines
    assert "item 0: ZeroDivisionError: division by zero" in done.lines


def test_the_progress_is_shown_as_it_moves(run, login, external_type, naps):
    naps += [
        lambda: transition_status(only_job().pk, "processing"),
        lambda: update_progress(only_job().pk, 25, message="reading"),
        lambda: None,
        lambda: update_progress(only_job().pk, 50, message="writing"),
        lambda: mark_completed(only_job().pk),
    ]
    done = run("run_job", external_type, "--user", login, "--wait")
    assert done.lines == [
        str(only_job().pk),
        "  0 % waits for a worker",
        "  0 % runs",
        " 25 % reading",
        " 50 % writing",
        "100 % completed",
        "outcome: completed",
    ]


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_on_a_terminal_there_is_a_bar(run, login, external_type, naps, terminal):
    naps += [
        lambda: transition_status(only_job().pk, "processing"),
        lambda: update_progress(only_job().pk, 25, message="[reading]"),
        lambda: mark_completed(only_job().pk),
    ]
    done = run("run_job", external_type, "--user", login, "--wait", stdout=terminal)
    assert done.code == 0
    assert "━" in done.text
    for seen in ("0 %", "25 %", "[reading]", "100 %", external_type):
        assert seen in done.text
    assert done.text.endswith("outcome: completed\n")


def test_without_rich_a_terminal_gets_lines(run, login, external_type, naps, terminal, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    naps += [
        lambda: transition_status(only_job().pk, "processing"),
        lambda: mark_completed(only_job().pk),
    ]
    done = run("run_job", external_type, "--user", login, "--wait", stdout=terminal)
    assert "━" not in done.text
    assert "100 % completed" in done.lines


def test_a_job_between_attempts_says_so(run, login, external_type, naps, answers):
    def postpone():
        job = only_job()
        job.start(worker="h/m/1/1/a", lease=30)
        job.max_attempts = 2
        job.save()
        job.postpone(delay=60, code="handler_error", message="")
        job.save()

    naps += [postpone, interrupt]
    answers += ["n"]
    done = run("run_job", external_type, "--user", login, "--wait")
    assert "  0 % waits for attempt 2" in done.lines


def test_a_job_that_is_deleted_has_no_outcome(run, login, external_type, naps):
    naps += [lambda: only_job().delete()]
    with pytest.raises(CommandError, match="There is no job"):
        run("run_job", external_type, "--user", login, "--wait")


# -- Ctrl-C ----------------------------------------------------------------------------------------


def test_ctrl_c_and_yes_cancels_a_waiting_job(
    run, user, login, external_type, naps, answers, capsys
):
    naps += [interrupt]
    answers += ["y"]
    done = run("run_job", external_type, "--user", login, "--wait")
    assert done.code == 1
    assert done.lines[-2:] == [
        "outcome: failed (cancelled)",
        "message: The job was cancelled: interrupted on the command line",
    ]
    assert "Cancel the job? [y/N]" in capsys.readouterr().err
    assert JobTransition.objects.filter(code="cancelled").first().actor == user


def test_ctrl_c_and_yes_asks_a_running_job_to_stop_and_waits_on(
    run, login, external_type, naps, answers
):
    naps += [
        lambda: transition_status(only_job().pk, "processing"),
        interrupt,
        lambda: mark_failed(only_job().pk, "stopped", failure_code="cancelled"),
    ]
    answers += ["YES"]
    done = run("run_job", external_type, "--user", login, "--wait")
    assert done.code == 1
    assert "  0 % is asked to stop" in done.lines
    assert "message: stopped" in done.lines
    assert only_job().cancel_requested_at is not None


@pytest.mark.parametrize("answer", ["", "n", "no", "what?", EOFError, KeyboardInterrupt])
def test_ctrl_c_and_anything_else_leaves_the_job_running(
    run, login, external_type, naps, answers, answer
):
    naps += [interrupt]
    answers += [answer]
    done = run("run_job", external_type, "--user", login, "--wait")
    assert done.code == 130
    assert done.lines[-1] == f"The job goes on: {only_job().pk}"
    assert only_job().status == "queued"
    assert only_job().cancel_requested_at is None


def test_a_job_that_ends_while_one_thinks_shows_its_outcome(
    run, login, external_type, naps, monkeypatch
):
    transition_to_the_end = [
        lambda: transition_status(only_job().pk, "processing"),
        lambda: create_asset(only_job().pk, only_job().user, "t", "/a", "", 1, name="a"),
        lambda: mark_completed(only_job().pk),
    ]

    def think():
        for step in transition_to_the_end:
            step()
        return "y"

    monkeypatch.setattr("builtins.input", think)
    naps += [interrupt]
    done = run("run_job", external_type, "--user", login, "--wait")
    assert done.code == 0
    assert done.lines[-3:] == ["outcome: completed", "assets:", "  a (1 byte): /a"]
