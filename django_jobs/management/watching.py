"""Waiting for the outcome of a job, from outside."""

from __future__ import annotations

import time
import uuid
from typing import Any

from django.core.management.base import OutputWrapper

from django_jobs.management.displays import Display, describe
from django_jobs.models import Job
from django_jobs.services.lookup import load_job

LOOK_EVERY = 0.2  # seconds


def watch(job_id: uuid.UUID, display: Display) -> Job:
    """Show the job at each change until it has reached its outcome; return it."""
    seen: Any = None
    with display:
        while True:
            job = load_job(job_id)
            visible = job.progress, describe(job)
            if visible != seen:
                display.show(job)
                seen = visible
            if job.is_terminal:
                return job
            time.sleep(LOOK_EVERY)


def is_answered_yes(question: str, terminal: OutputWrapper) -> bool:
    """Ask on ``terminal``; no answer, and another Ctrl-C, are a no."""
    terminal.write(f"\n{question} [y/N] ", style_func=str, ending="")
    terminal.flush()
    try:
        return input().strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False
