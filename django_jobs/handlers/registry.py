"""Which types of job there are, and the two ways to declare one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import autodiscover_modules

from django_jobs.exceptions import UnknownJobType
from django_jobs.handlers.job_type import OMITTED, JobType, Permission, Seconds, _Omitted
from django_jobs.handlers.options import check_options

if TYPE_CHECKING:
    from rest_framework.serializers import Serializer

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Registry:
    """The job types of this process, by name."""

    def __init__(self) -> None:
        self._types: dict[str, JobType] = {}

    def add(self, job_type: JobType) -> None:
        """Add a type; a second one of the same name from another place is refused."""
        known = self._types.get(job_type.name)
        if known and known.place != job_type.place:  # the same place: its module was reloaded
            raise ImproperlyConfigured(
                f"The job type {job_type.name!r} is declared twice: "
                f"at {known.place} and at {job_type.place}."
            )
        self._types[job_type.name] = job_type

    def remove(self, name: str) -> None:
        self._types.pop(name, None)

    def find(self, name: str) -> JobType | None:
        return self._types.get(name)

    def get(self, name: str) -> JobType:
        """Return the type called ``name`` or raise ``UnknownJobType``."""
        found = self._types.get(name) if isinstance(name, str) else None
        if found is None:
            raise UnknownJobType(f"There is no type of job called {name!r:.80}.")
        return found

    def handled_names(self) -> list[str]:
        """The names of the types that workers of this process can run, sorted."""
        return sorted(name for name, found in self._types.items() if not found.is_external)

    def __iter__(self) -> Iterator[JobType]:
        return iter(sorted(self._types.values(), key=lambda found: found.name))


registry = Registry()


def job_handler(
    name: str,
    *,
    parameters: type[Serializer[Any]] | None = None,
    queue: str = "default",
    timeout: Seconds = OMITTED,
    queue_timeout: Seconds = OMITTED,
    max_attempts: int | _Omitted = OMITTED,
    retry_delay: float | _Omitted = OMITTED,
    max_active_per_user: int | None = None,
    retry_failed_items: bool = False,
    permission: Permission = "django_jobs.add_job",
    title: str = "",
    description: str = "",
) -> Callable[[Handler], Handler]:
    """Declare the decorated function as the handler of the job type ``name`` (1 to 50 characters).

    The function takes a ``JobContext`` and returns a result that can be stored as JSON, or a
    ``Partial``; it comes back unchanged. ``parameters`` is a DRF serializer class. ``timeout``
    (of one attempt), ``queue_timeout`` (of each wait for a worker) and ``retry_delay`` are in
    seconds; omitted means the setting, ``None`` no limit. ``retry_failed_items`` says that the
    handler heeds ``job.failed_items``. ``permission`` (a codename,
    ``AUTHENTICATED`` or a callable of the user) is who may start it over the API and the admin.
    Raises ``ImproperlyConfigured`` for a name in use, a generator function or a wrong option.
    """
    if callable(name):
        raise ImproperlyConfigured(f'{name!r:.80} needs a name: @job_handler("name").')

    def register(handler: Handler) -> Handler:
        _refuse_what_cannot_run(name, handler)
        job_type = JobType(
            name=name,
            handler=handler,
            place=_place_of(handler) or _caller(),
            parameters=parameters,
            queue=queue,
            timeout_option=timeout,
            queue_timeout_option=queue_timeout,
            max_attempts_option=max_attempts,
            retry_delay_option=retry_delay,
            max_active_per_user=max_active_per_user,
            retry_failed_items=retry_failed_items,
            permission=permission,
            title=title,
            description=description,
        )
        _declare(job_type)
        return handler

    return register


def register_job_type(
    name: str,
    *,
    parameters: type[Serializer[Any]] | None = None,
    queue: str = "default",
    timeout: Seconds = OMITTED,
    queue_timeout: Seconds = OMITTED,
    max_active_per_user: int | None = None,
    permission: Permission = "django_jobs.add_job",
    title: str = "",
    description: str = "",
) -> JobType:
    """Declare a job type that something else than our workers drives through the services.

    Workers leave it alone. Its lease is ``timeout`` seconds, and each update renews it.
    """
    job_type = JobType(
        name=name,
        handler=None,
        place=_caller(),
        parameters=parameters,
        queue=queue,
        timeout_option=timeout,
        queue_timeout_option=queue_timeout,
        max_attempts_option=1,
        max_active_per_user=max_active_per_user,
        permission=permission,
        title=title,
        description=description,
    )
    _declare(job_type)
    return job_type


def autodiscover() -> None:
    """Import ``job_handlers`` of every installed app."""
    autodiscover_modules("job_handlers")


def _declare(job_type: JobType) -> None:
    check_options(job_type)
    registry.add(job_type)


def _refuse_what_cannot_run(name: str, handler: Any) -> None:
    if not callable(handler):
        raise ImproperlyConfigured(f"The handler of the job type {name!r} is not callable.")
    body = _body(handler)
    bodies = [body, type(body).__call__]
    if any(inspect.isgeneratorfunction(f) or inspect.isasyncgenfunction(f) for f in bodies):
        raise ImproperlyConfigured(
            f"The handler of the job type {name!r} is a generator function: its body would "
            "never run. Return the result instead of yielding."
        )


def _body(handler: Any) -> Any:
    """Return what a call of ``handler`` runs, inside of wrappers and partials."""
    inner = inspect.unwrap(handler)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    return inner


def _place_of(handler: Any) -> str:
    """Return where a function is defined; "" for what is made from code that others share."""
    code = getattr(inspect.unwrap(handler), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else ""


def _caller() -> str:
    frame = inspect.currentframe()
    outer = frame.f_back.f_back if frame and frame.f_back else None
    return f"{outer.f_code.co_filename}:{outer.f_lineno}" if outer else "unknown"
