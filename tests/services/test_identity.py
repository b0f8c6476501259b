import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from django_jobs.models.attempts import is_ours
from django_jobs.services import identity
from django_jobs.services.identity import is_certainly_dead, machine, machine_prefix, worker_name

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


@pytest.fixture
def elsewhere(monkeypatch):
    """On a system that does not tell what machine it is."""
    machine.cache_clear()
    monkeypatch.setattr(identity, "Path", lambda path: Path("/nowhere") / path.lstrip("/"))
    yield
    machine.cache_clear()


def named(pid, start=None):
    host, here, _, own_start, random = worker_name().split("/")
    return f"{host}/{here}/{pid}/{own_start if start is None else start}/{random}"


def test_a_process_has_one_name():
    assert worker_name() == worker_name()


def test_a_name_is_host_machine_pid_start_and_random():
    assert re.fullmatch(r"[^/]+/[0-9a-f]{16}/\d+/\d+/[0-9a-f]{8}", worker_name())
    assert worker_name().split("/")[2] == str(os.getpid())


def test_a_name_is_one_of_ours_and_fits_its_column():
    assert is_ours(worker_name())
    assert len(worker_name()) < 200


@pytest.mark.parametrize("host", ["", "a/b", "x" * 300])
def test_a_name_is_whole_whatever_the_host_is_called(monkeypatch, host):
    monkeypatch.setattr("socket.gethostname", lambda: host)
    name = identity._name_of.__wrapped__(os.getpid())

    assert len(name.split("/")) == 5
    assert len(name) < 200


def test_a_name_begins_with_that_of_the_machine():
    assert worker_name().startswith(machine_prefix())


def test_a_forked_process_has_another_name():
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(worker_name()))
    child.start()
    name = receiver.recv()
    child.join()

    assert name.split("/")[2] == str(child.pid)
    assert name.split("/")[4] != worker_name().split("/")[4]


def test_this_process_is_not_dead():
    assert is_certainly_dead(worker_name()) is False


def test_a_process_that_has_ended_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()

    assert is_certainly_dead(named(child.pid)) is True


@on_linux
def test_a_process_that_nobody_has_waited_for_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    start = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]

    assert is_certainly_dead(named(child.pid, start)) is True
    child.wait()


def test_another_process_under_the_same_pid_is_not_the_one():
    assert is_certainly_dead(named(os.getpid(), start=1)) is True


@pytest.mark.parametrize(
    "worker",
    [
        "",
        "nobody",
        "external:abcd",
        "host/machine/1/1/abcd",
        "host//1/1/abcd",
        "a/b/c",
        "/" * 4,
        "/" * 9,
    ],
)
def test_nothing_is_known_of_others(worker):
    assert is_certainly_dead(worker) is False


@pytest.mark.parametrize(
    ("pid", "start"), [("x", "1"), ("-1", "1"), ("1", ""), ("", "1"), ("²", "1")]
)
def test_nothing_is_known_of_a_name_that_is_garbled(pid, start):
    assert is_certainly_dead(named(pid, start)) is False


@pytest.mark.usefixtures("elsewhere")
def test_nothing_is_known_where_the_system_does_not_tell():
    assert machine() == machine_prefix() == ""
    name = identity._name_of.__wrapped__(os.getpid())

    assert len(name.split("/")) == 5
    assert is_certainly_dead(name) is False
