import functools
import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_jobs.exceptions import UnknownJobType
from django_jobs.handlers import JobType, job_handler, register_job_type, registry
from tests.naming import readable


def plain(job):
    return {"plain": True}


def generator(job):
    yield 1


async def coroutine(job):
    return {}


async def asynchronous_generator(job):
    yield 1


class Callable:
    def __call__(self, job):
        return {}

    def method(self, job):
        return {}

    @classmethod
    def class_method(cls, job):
        return {}

    @staticmethod
    def static_method(job):
        return {}

    def generator(self, job):
        yield 1


class CallableGenerator:
    def __call__(self, job):
        yield 1


class CallableAsyncGenerator:
    async def __call__(self, job):
        yield 1


class InheritedGenerator(CallableGenerator):
    pass


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


def name_of(handler):
    return getattr(handler, "__qualname__", type(handler).__name__)


def place(function):
    code = function.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


# -- what can be a handler ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "handler",
    [
        plain,
        coroutine,
        lambda job: None,
        Callable(),
        Callable().method,
        Callable.class_method,
        Callable.static_method,
        functools.partial(plain),
        functools.partial(Callable()),
        functools.partial(functools.partial(coroutine)),
        wrapped(plain),
    ],
    ids=name_of,
)
def test_anything_that_can_be_called_with_a_job_can_be_a_handler(handler):
    returned = job_handler("report")(handler)

    assert returned is handler
    assert registry.get("report").handler is handler


@pytest.mark.parametrize(
    "handler",
    [
        generator,
        asynchronous_generator,
        Callable().generator,
        CallableGenerator(),
        CallableAsyncGenerator(),
        InheritedGenerator(),
        functools.partial(generator),
        functools.partial(asynchronous_generator),
        functools.partial(CallableGenerator()),
        functools.partial(InheritedGenerator()),
        functools.partial(Callable().generator),
        wrapped(generator),
        functools.partial(wrapped(generator)),
        wrapped(functools.partial(generator)),
    ],
    ids=name_of,
)
def test_a_generator_function_cannot(handler):
    with pytest.raises(ImproperlyConfigured, match="is a generator function"):
        job_handler("report")(handler)

    assert registry.find("report") is None


@pytest.mark.parametrize("handler", [None, "plain", 1, object(), [plain], {}], ids=name_of)
def test_what_cannot_be_called_cannot(handler):
    with pytest.raises(ImproperlyConfigured, match="'report' is not callable"):
        job_handler("report")(handler)

    assert registry.find("report") is None


@pytest.mark.parametrize("name", [plain, Callable(), CallableGenerator], ids=name_of)
def test_the_decorator_needs_a_name(name):
    with pytest.raises(ImproperlyConfigured, match="needs a name"):
        job_handler(name)


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "a" * 50, "reports.yearly", "jährlich", "with blank"])
def test_a_printable_text_of_1_to_50_characters_is_a_name(name):
    job_handler(name)(plain)

    assert registry.get(name).name == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "its name is empty"),
        ("  ", "its name is empty"),
        (None, "its name is empty"),
        (1, "its name is empty"),
        (b"report", "its name is empty"),
        ("a" * 51, "its name has more than 50 characters"),
        ("a" * 5000, "its name has more than 50 characters"),
        (" report", "its name has blanks at an end or characters that cannot be printed"),
        ("report\n", "its name has blanks at an end or characters that cannot be printed"),
        ("re\nport", "its name has blanks at an end or characters that cannot be printed"),
        ("re\x00port", "its name has blanks at an end or characters that cannot be printed"),
        ("re\u200bport", "its name has blanks at an end or characters that cannot be printed"),
        ("\ud800", "its name has blanks at an end or characters that cannot be printed"),
    ],
    ids=lambda text: repr(text)[:30],
)
@pytest.mark.parametrize(
    "declare",
    [lambda name: job_handler(name)(plain), lambda name: register_job_type(name)],
    ids=["job_handler", "register_job_type"],
)
def test_another_name_is_refused(name, problem, declare):
    before = list(registry)

    with pytest.raises(ImproperlyConfigured) as raised:
        declare(name)

    assert problem in str(raised.value)
    assert __file__ in str(raised.value)
    assert list(registry) == before


# -- duplicates --------------------------------------------------------------------------------


def test_a_second_handler_of_the_same_name_is_refused_and_both_places_are_named():
    job_handler("report")(plain)

    with pytest.raises(ImproperlyConfigured) as raised:
        job_handler("report")(coroutine)

    assert place(plain) in str(raised.value)
    assert place(coroutine) in str(raised.value)
    assert registry.get("report").handler is plain


def test_a_handler_and_an_external_type_cannot_have_the_same_name():
    line = inspect.currentframe().f_lineno + 1
    register_job_type("report")

    with pytest.raises(ImproperlyConfigured) as raised:
        job_handler("report")(plain)

    assert f"{__file__}:{line}" in str(raised.value)
    assert place(plain) in str(raised.value)


def test_two_external_types_cannot_have_the_same_name():
    line = inspect.currentframe().f_lineno + 1
    register_job_type("report")

    with pytest.raises(ImproperlyConfigured, match=rf":{line} and at .*:{line + 3}\."):
        register_job_type("report")


@pytest.mark.parametrize(
    "make",
    [lambda: functools.partial(plain), Callable, lambda: functools.partial(Callable())],
    ids=["partials of one function", "objects of one class", "partials of such objects"],
)
def test_two_handlers_made_from_the_same_code_cannot_have_the_same_name(make):
    line = inspect.currentframe().f_lineno + 1
    job_handler("report")(make())

    with pytest.raises(ImproperlyConfigured, match=rf":{line} and at .*:{line + 3}\."):
        job_handler("report")(make())


def test_names_that_differ_in_case_are_two_types():
    job_handler("report")(plain)
    job_handler("Report")(coroutine)

    assert registry.get("Report").handler is coroutine


def test_a_module_may_be_loaded_again():
    job_handler("report", title="old")(plain)
    job_handler("report", title="new")(plain)

    assert registry.get("report").title == "new"


# -- what is declared --------------------------------------------------------------------------


def test_a_handler_may_have_several_names():
    job_handler("one")(plain)
    job_handler("two")(plain)

    assert registry.get("one").handler is registry.get("two").handler


def test_an_external_type_has_no_handler_and_one_attempt(settings):
    settings.DJANGO_JOBS = {"DEFAULT_MAX_ATTEMPTS": 5}
    declared = register_job_type("report", timeout=60, title="Reports")

    assert isinstance(declared, JobType)
    assert registry.get("report") is declared
    assert declared.is_external and declared.handler is None
    assert (declared.timeout, declared.max_attempts, declared.title) == (60, 1, "Reports")


def test_workers_run_the_types_that_have_a_handler():
    job_handler("b")(plain)
    job_handler("a")(plain)
    register_job_type("external")

    assert [name for name in registry.handled_names() if len(name) == 1] == ["a", "b"]
    assert "external" not in registry.handled_names()


def test_the_types_are_listed_by_name():
    job_handler("b")(plain)
    register_job_type("a")

    names = [found.name for found in registry]
    assert names == sorted(names)
    assert {"a", "b"} <= set(names)


@pytest.mark.parametrize("name", ["report", "", None, 1, b"x", ["x"], "x" * 5000], ids=readable)
def test_an_unknown_name_raises(name):
    with pytest.raises(UnknownJobType, match="There is no type of job called") as raised:
        registry.get(name)

    assert len(str(raised.value)) < 130


def test_a_removed_type_is_unknown():
    job_handler("report")(plain)
    registry.remove("report")
    registry.remove("report")

    assert registry.find("report") is None


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (
            job_handler,
            "(name, *, parameters=None, queue='default', timeout=the setting, "
            "queue_timeout=the setting, max_attempts=the setting, retry_delay=the setting, "
            "max_active_per_user=None, retry_failed_items=False, "
            "permission='django_jobs.add_job', title='', description='')",
        ),
        (
            register_job_type,
            "(name, *, parameters=None, queue='default', timeout=the setting, "
            "queue_timeout=the setting, max_active_per_user=None, "
            "permission='django_jobs.add_job', title='', description='')",
        ),
    ],
)
def test_the_signatures_are_as_documented(function, expected):
    signature = inspect.signature(function)
    bare = [
        parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()
    ]

    assert str(inspect.Signature(bare)) == expected


# -- autodiscovery -----------------------------------------------------------------------------


@pytest.fixture
def start(tmp_path):
    """Start Django in a process of its own with an app whose ``job_handlers.py`` is given."""

    def run(job_handlers, code="print(registry.handled_names())"):
        app = tmp_path / "shop"
        app.mkdir()
        (app / "__init__.py").touch()
        if job_handlers is not None:
            (app / "job_handlers.py").write_text(textwrap.dedent(job_handlers))
        (tmp_path / "shop_settings.py").write_text(
            "INSTALLED_APPS = ['django.contrib.auth', 'django.contrib.contenttypes', 'shop',"
            " 'django_jobs']\nDEFAULT_AUTO_FIELD = 'django.db.models.BigAutoField'\n"
        )
        return subprocess.run(
            [
                sys.executable,
                "-c",
                f"import django; django.setup()\nfrom django_jobs.handlers import registry\n{code}",
            ],
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "shop_settings",
                "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}",
            },
            capture_output=True,
            text=True,
        )

    return run


def test_job_handlers_of_installed_apps_are_found_at_start_up(start):
    done = start(
        """
        from django_jobs.handlers import job_handler

        @job_handler("ship")
        def ship(job):
            pass
        """
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "['ship']\n", "")


def test_an_app_needs_no_job_handlers(start):
    done = start(None)

    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("job_handlers", "error"),
    [
        ("import not_installed_anywhere", "ModuleNotFoundError: No module named 'not_installed"),
        ("from django_jobs.handlers import not_there", "ImportError: cannot import name"),
        ("1 / 0", "ZeroDivisionError"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_an_error_in_job_handlers_is_raised_at_start_up(start, job_handlers, error):
    done = start(job_handlers)

    assert done.returncode == 1
    assert error in done.stderr
    assert "job_handlers.py" in done.stderr


def test_a_duplicate_is_refused_at_start_up(start):
    done = start(
        """
        from django_jobs.handlers import job_handler

        @job_handler("ship")
        def first(job):
            pass

        @job_handler("ship")
        def second(job):
            pass
        """
    )

    assert done.returncode == 1
    assert "The job type 'ship' is declared twice" in done.stderr
    assert "job_handlers.py:4" in done.stderr and "job_handlers.py:8" in done.stderr


def test_a_serializer_is_not_needed_to_start(start):
    done = start(
        """
        from django_jobs.handlers import job_handler

        @job_handler("ship")
        def ship(job):
            pass
        """,
        code="import sys; print('rest_framework' in sys.modules)",
    )

    assert done.stdout == "False\n"
