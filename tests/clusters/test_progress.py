"""Progress of running jobs, as those see it who poll."""

import pytest

from django_jobs.models import Job
from django_jobs.services import create_job
from tests.clusters.processes import Cluster, is_sqlite, wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def test_100_000_reports_cost_less_than_half_a_second_and_are_seen(user, tmp_path, notes):
    with Cluster(tmp_path):
        job = create_job(user, "chatty", {"entries": str(notes)})
        seen = []

        def is_done():
            fresh = Job.objects.get(pk=job.pk)
            if (
                fresh.status == "processing"
                and (fresh.progress, fresh.progress_message) not in seen
            ):
                seen.append((fresh.progress, fresh.progress_message))
            return fresh if fresh.is_terminal else None

        done = wait_for(is_done)
    assert (done.status, done.progress) == ("completed", 100)
    assert done.result["seconds"] < 0.5
    assert [percent for percent, _ in seen] == sorted(percent for percent, _ in seen)
    if not is_sqlite():  # there progress follows at the commit of the handler's own transaction
        assert len(seen) >= 3, seen
