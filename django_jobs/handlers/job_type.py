"""What the library knows of one type of job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from django_jobs.conf import conf

if TYPE_CHECKING:
    from rest_framework.serializers import Serializer


class _Omitted:
    """An option that was not given: the setting decides. ``None`` means no limit."""

    def __repr__(self) -> str:
        return "the setting"


class _Authenticated:
    def __repr__(self) -> str:
        return "AUTHENTICATED"


OMITTED: Final = _Omitted()
#: As ``permission``: whoever is logged in may start the job over the API and in the admin.
AUTHENTICATED: Final = _Authenticated()

Permission: TypeAlias = "str | _Authenticated | Callable[[Any], bool]"
Seconds: TypeAlias = "float | _Omitted | None"


@dataclass(frozen=True)
class JobType:
    """One type of job; ``handler`` is ``None`` when something else than our workers drives it."""

    name: str
    handler: Callable[..., Any] | None
    place: str
    parameters: type[Serializer[Any]] | None = None
    queue: str = "default"
    timeout_option: Seconds = OMITTED
    queue_timeout_option: Seconds = OMITTED
    max_attempts_option: int | _Omitted = OMITTED
    retry_delay_option: float | _Omitted = OMITTED
    max_active_per_user: int | None = None
    permission: Permission = "django_jobs.add_job"
    retry_failed_items: bool = False
    title: str = ""
    description: str = ""

    @property
    def is_external(self) -> bool:
        return self.handler is None

    @property
    def user_queues(self) -> tuple[str, ...]:
        """The queues that whoever starts the job over the API may choose from."""
        return (self.queue,)

    @property
    def timeout(self) -> float | None:
        """Seconds that one attempt may take; ``None`` is no limit."""
        option = self.timeout_option
        return conf.DEFAULT_TIMEOUT if isinstance(option, _Omitted) else option

    @property
    def queue_timeout(self) -> float | None:
        """Seconds that the job may wait for a worker once it is due; ``None`` is no limit."""
        option = self.queue_timeout_option
        return conf.DEFAULT_QUEUE_TIMEOUT if isinstance(option, _Omitted) else option

    @property
    def max_attempts(self) -> int:
        option = self.max_attempts_option
        return conf.DEFAULT_MAX_ATTEMPTS if isinstance(option, _Omitted) else option

    @property
    def retry_delay(self) -> float:
        """Seconds before the second attempt; doubled before each later one."""
        option = self.retry_delay_option
        return conf.DEFAULT_RETRY_DELAY if isinstance(option, _Omitted) else option

    def may_be_started_by(self, user: Any) -> bool:
        """Say whether ``user`` may start such a job over the API or in the admin."""
        if not getattr(user, "is_authenticated", False):
            return False
        if isinstance(self.permission, _Authenticated):
            return True
        if isinstance(self.permission, str):
            return bool(user.has_perm(self.permission))
        return bool(self.permission(user))
