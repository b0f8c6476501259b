import pytest

from django_jobs.models import Job
from django_jobs.services import create_job


@pytest.fixture
def run(request, user, handler):
    """Run a function as the handler of a new job, here and now; return the job as it ended.

    With the parameter "test case" everything happens inside the transaction of a test case.
    """
    capture = request.getfixturevalue("django_capture_on_commit_callbacks")
    is_in_transaction = getattr(request, "param", "") == "test case"

    def run(function, parameters=None, **options):
        name = handler(function, **options)
        if is_in_transaction:
            with capture(execute=True):
                job = create_job(user, name, parameters)
        else:
            job = create_job(user, name, parameters)
        return Job.objects.get(pk=job.pk)

    return run
