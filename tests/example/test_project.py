"""The example project keeps its own tests beside its code; here they are run, with its checks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(__file__).resolve().parents[2]


def manage(*arguments, folder):
    """Run ``manage.py`` of the example project on the kind of database that this run is about."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "example_project.settings",
        "DATABASE_URL": _address(folder),
        "PYTHONWARNINGS": "error::DeprecationWarning,error::ResourceWarning",
    }
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def _address(folder):
    if settings.DATABASE == "sqlite":
        return f"sqlite:///{folder / 'example.sqlite3'}"
    server = settings.URLS[settings.DATABASE].rpartition("/")[0]
    return f"{server}/example{settings.SUFFIX}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--fail-level", "WARNING"),
        ("makemigrations", "--check", "--dry-run", "--skip-checks"),
        ("test", "--noinput", "example_project", "--shuffle"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_example_project_passes(arguments, tmp_path):
    result = manage(*arguments, folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
