from io import StringIO
from types import SimpleNamespace

import pytest
from django.core.management import call_command


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.fixture
def run():
    """Run a command; return what it printed and its exit code."""

    def run(name, *args, stdout=None):
        stdout = stdout or StringIO()
        try:
            call_command(name, *map(str, args), stdout=stdout)
            code = 0
        except SystemExit as stop:
            code = stop.code
        return SimpleNamespace(
            text=stdout.getvalue(), lines=stdout.getvalue().splitlines(), code=code
        )

    return run


@pytest.fixture
def login(user):
    return user.get_username()
