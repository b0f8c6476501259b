"""Fields whose Python side is ours and whose migrations are plain Django's."""

from __future__ import annotations

import datetime as dt
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, TypeAlias

from django.db import models
from django.utils import timezone
from django_fsm import FSMField, TransitionNotAllowed

from django_jobs.exceptions import InvalidStateTransitionError
from django_jobs.models import clock

if TYPE_CHECKING:  # generic in the stubs only
    _UUIDField: TypeAlias = models.UUIDField[Any, Any]
    _DateTimeField: TypeAlias = models.DateTimeField[Any, Any]
else:
    _UUIDField, _DateTimeField = models.UUIDField, models.DateTimeField

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_lock = threading.Lock()
_last_stamp = 0


def uuid7(ahead: int = 0) -> uuid.UUID:
    """Return a new UUID of version 7 (RFC 9562, method 3); strictly increasing in a process.

    ``ahead`` is added to this host's clock, in nanoseconds.
    """
    global _last_stamp
    with _lock:
        stamp = _last_stamp = max(_stamp(time.time_ns() + ahead), _last_stamp + 1)
    return _stamped(stamp)


def uuid7_at(moment: dt.datetime, place: int = 0) -> uuid.UUID:
    """Return a UUID of version 7 that sorts as ``moment`` does, and then as ``place``."""
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return _stamped(_stamp((aware - _EPOCH) // _MICROSECOND * 1000) + place)


def _stamp(nanoseconds: int) -> int:
    """Milliseconds in 48 bits, then the fraction of the millisecond in 12."""
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    return milliseconds << 12 | (rest << 12) // 1_000_000


def _stamped(stamp: int) -> uuid.UUID:
    random = uuid.uuid4().int & ((1 << 62) - 1)
    return uuid.UUID(int=(stamp >> 12) << 80 | 7 << 76 | (stamp & 0xFFF) << 64 | 2 << 62 | random)


def new_key() -> uuid.UUID:
    """Return a key that sorts by age: the clocks of hosts differ, the database's is one."""
    return uuid7(clock.offset(clock.alias_for_write()) // _MICROSECOND * 1000)


class UUID7Field(_UUIDField):
    """A primary key that sorts by age. Migrations see a UUIDField without a default."""

    def __init__(self, **options: Any) -> None:
        options.update(primary_key=True, editable=False, default=new_key)
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
