"""Worker processes whose cluster is gone."""

import os

import pytest

from django_jobs.execution import orphans


@pytest.fixture(autouse=True)
def exits(monkeypatch):
    monkeypatch.setattr(orphans, "_guard", None)
    exits = []
    monkeypatch.setattr(orphans.os, "_exit", exits.append)
    monkeypatch.setattr(orphans.logging, "shutdown", lambda: None)
    return exits


def test_a_process_without_a_known_guard_is_no_orphan(exits):
    orphans.remember_guard(0)
    orphans.leave_if_orphan()
    assert not orphans.is_orphan()
    assert exits == []


def test_a_process_whose_guard_is_its_parent_is_no_orphan():
    orphans.remember_guard(os.getppid())
    assert not orphans.is_orphan()


def test_an_orphan_leaves_when_its_ordinary_task_has_ended(exits):
    orphans.remember_guard(os.getppid() + 1)
    assert orphans.is_orphan()
    orphans.engage(True)
    orphans.leave_if_orphan()
    assert exits == []
    orphans.engage(False)
    orphans.leave_if_orphan()
    assert exits == [0]
