"""The same services for async callers, made in one place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from django_jobs.services import assets, creation, lifecycle, lookup, progress, steering

P = ParamSpec("P")
R = TypeVar("R")


def _twin(service: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    @functools.wraps(service)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await sync_to_async(service)(*args, **kwargs)

    twin.__name__ = twin.__qualname__ = f"a{service.__name__}"
    return twin


acreate_job = _twin(creation.create_job)
acreate_jobs = _twin(creation.create_jobs)
aget_job = _twin(lookup.get_job)
aget_job_assets = _twin(lookup.get_job_assets)
atransition_status = _twin(lifecycle.transition_status)
aupdate_progress = _twin(progress.update_progress)
amark_completed = _twin(lifecycle.mark_completed)
amark_partial = _twin(lifecycle.mark_partial)
amark_failed = _twin(lifecycle.mark_failed)
acreate_asset = _twin(assets.create_asset)
acancel_job = _twin(steering.cancel_job)
aretry_job = _twin(steering.retry_job)
