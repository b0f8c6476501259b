"""The public names, locked: what a host may import, and from where."""

import importlib
import subprocess
import sys

import pytest

PUBLIC = {
    "django_jobs.broker": ["JobBroker"],
    "django_jobs.handlers": ["AUTHENTICATED", "job_handler", "register_job_type"],
    "django_jobs.execution": ["JobContext", "Partial"],
    "django_jobs.exceptions": [
        "IdempotencyConflict",
        "InvalidParameters",
        "InvalidStateTransitionError",
        "JobAccessDenied",
        "JobCancelled",
        "JobFailed",
        "JobNotFound",
        "JobNotRetryable",
        "JobTimedOut",
        "JobsError",
        "LeaseLost",
        "StaleJob",
        "TooManyActiveJobs",
        "UnknownJobType",
    ],
    "django_jobs.services": [
        "cancel_job",
        "create_asset",
        "create_job",
        "create_jobs",
        "get_job",
        "get_job_assets",
        "mark_completed",
        "mark_failed",
        "mark_partial",
        "retry_job",
        "transition_status",
        "update_progress",
        "acancel_job",
        "acreate_asset",
        "acreate_job",
        "acreate_jobs",
        "aget_job",
        "aget_job_assets",
        "amark_completed",
        "amark_failed",
        "amark_partial",
        "aretry_job",
        "atransition_status",
        "aupdate_progress",
    ],
    "django_jobs.models": ["Asset", "FailureCode", "Job", "JobStatus", "JobTransition"],
    "django_jobs.redaction": ["redact_secrets"],
    "django_jobs.states": ["FailureCode", "JobStatus", "VALID_TRANSITIONS", "is_terminal_state"],
    "django_jobs.signals": ["job_finished", "job_transitioned"],
    "django_jobs.testing": ["make_job", "run_due_jobs"],
}
PATHS = [f"{module}.{name}" for module, names in PUBLIC.items() for name in names]


@pytest.mark.parametrize("path", PATHS)
def test_a_public_name_can_be_imported(path):
    module, _, name = path.rpartition(".")

    assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize(
    "module", ["django_jobs.execution", "django_jobs.models", "django_jobs.services"]
)
def test_a_public_package_offers_these_names_and_no_others(module):
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


def test_the_states_are_the_same_wherever_they_are_imported_from():
    models = importlib.import_module("django_jobs.models")
    states = importlib.import_module("django_jobs.states")

    assert models.JobStatus is states.JobStatus
    assert models.FailureCode is states.FailureCode


def test_the_package_itself_holds_the_version_only():
    code = (
        "import sys, django_jobs\n"
        "names = {name for name in vars(django_jobs) if not name.startswith('__')}\n"
        "print(sorted(names), 'django' in sys.modules, django_jobs.__version__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("[] False ")
    assert done.stdout.split()[-1].count(".") == 2
