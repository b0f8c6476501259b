"""Fields whose Python side is ours and whose migrations are plain Django's."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, TypeAlias

from django.db import models
from django_fsm import FSMField, TransitionNotAllowed

from django_jobs.exceptions import InvalidStateTransitionError
from django_jobs.models import clock

if TYPE_CHECKING:  # generic in the stubs only
    _UUIDField: TypeAlias = models.UUIDField[Any, Any]
    _DateTimeField: TypeAlias = models.DateTimeField[Any, Any]
else:
    _UUIDField, _DateTimeField = models.UUIDField, models.DateTimeField

_lock = threading.Lock()
_last_stamp = 0


def uuid7() -> uuid.UUID:
    """Return a new UUID of version 7 (RFC 9562, method 3); strictly increasing in a process."""
    global _last_stamp
    with _lock:
        # milliseconds in 48 bits, then the fraction of the millisecond in 12
        nanoseconds = time.time_ns()
        milliseconds, rest = divmod(nanoseconds, 1_000_000)
        stamp = max(milliseconds << 12 | (rest << 12) // 1_000_000, _last_stamp + 1)
        _last_stamp = stamp
    random = uuid.uuid4().int & ((1 << 62) - 1)
    return uuid.UUID(int=(stamp >> 12) << 80 | 7 << 76 | (stamp & 0xFFF) << 64 | 2 << 62 | random)


class UUID7Field(_UUIDField):
    """A primary key that sorts by age. Migrations see a UUIDField without a default."""

    def __init__(self, **options: Any) -> None:
        options.update(primary_key=True, editable=False, default=uuid7)
        super().__init__(**options)

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        del kwargs["default"]
        return name, "django.db.models.UUIDField", args, kwargs


class DatabaseTimeField(_DateTimeField):
    """A moment of the database's clock, now by default. Migrations see a plain DateTimeField."""

    def __init__(self, **options: Any) -> None:
        options.update(editable=False, default=clock.now)
        super().__init__(**options)

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        del kwargs["default"]
        return name, "django.db.models.DateTimeField", args, kwargs


class _StatusDescriptor:
    """Lets only a new row, a reload and the state machine set the field.

    django-fsm's own descriptor also lets a deferred field be set, and its way to reload switches
    the protection off for all instances and threads (and leaves it off if the reload raises).
    """

    def __init__(self, field: Any) -> None:
        self.field = field

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self.field.get_state(instance)

    def __set__(self, instance: Any, value: Any) -> None:
        is_new = instance._state.adding and self.field.name not in instance.__dict__
        if not (is_new or instance.is_reloading):
            raise AttributeError(
                f"Direct {self.field.name} modification is not allowed: use a transition."
            )
        self.field.set_state(instance, value)


class StatusField(FSMField):
    """The protected state of a job. Migrations see django-fsm's FSMField."""

    descriptor_class = _StatusDescriptor  # type: ignore[assignment]

    def deconstruct(self) -> Any:
        name, _, args, kwargs = super().deconstruct()
        return name, "django_fsm.FSMField", args, kwargs

    def change_state(self, instance: Any, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Take the step, or raise the error that names both states."""
        try:
            return super().change_state(instance, method, *args, **kwargs)
        except InvalidStateTransitionError:
            raise
        except TransitionNotAllowed as error:
            steps = method._django_fsm.transitions.values()
            target = next((step.target for step in steps if step.target), instance.status)
            raise InvalidStateTransitionError(instance.status, target) from error
