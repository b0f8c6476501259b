"""Signals of the library, sent after commit: a receiver that raises harms nobody."""

from django.dispatch import Signal

# sender=Job, job: Job, transition: JobTransition; each step of a job's log, retries included.
job_transitioned = Signal()

# sender=Job, job: Job; once, when the job has reached a terminal state.
job_finished = Signal()
