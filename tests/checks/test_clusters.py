import pytest

from django_jobs.checks import clusters
from django_jobs.checks.clusters import JOB_BROKER, check_clusters, job_clusters
from tests.checks.conftest import OURS, ids

OTHER = "tests.checks.conftest.OtherBroker"
SUBCLASS = "tests.checks.conftest.OurBroker"


def test_a_cluster_with_our_broker_is_left_in_peace():
    assert check_clusters() == []


def test_the_path_of_our_broker_is_true():
    from django_jobs.broker import JobBroker

    assert f"{JobBroker.__module__}.{JobBroker.__qualname__}" == JOB_BROKER


def test_a_subclass_of_our_broker_counts(cluster):
    cluster(broker_class=SUBCLASS)
    assert check_clusters() == []


def test_the_immediate_engine_needs_no_cluster(settings, jobs):
    jobs(ENGINE="immediate")
    del settings.Q_CLUSTER
    assert check_clusters() == []


def test_django_q_must_be_installed(settings):
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_q"]
    [message] = check_clusters()
    assert ids([message]) == ["E008"]
    assert "immediate" in message.hint


def test_django_q_may_be_installed_by_its_configuration(settings):
    apps = [app for app in settings.INSTALLED_APPS if app != "django_q"]
    settings.INSTALLED_APPS = [*apps, "django_q.apps.DjangoQConfig"]
    assert check_clusters() == []


def test_without_any_cluster_nobody_takes_jobs(settings):
    del settings.Q_CLUSTER
    assert ids(check_clusters()) == ["E010"]


@pytest.mark.parametrize("broker", [None, OTHER, "django_q.brokers.orm.ORM"])
def test_a_cluster_with_another_broker_takes_no_jobs(cluster, broker):
    cluster(broker_class=broker)
    [message] = check_clusters()
    assert ids([message]) == ["E010"]
    assert OURS in message.hint
    assert "ALT_CLUSTERS" in message.hint


def test_another_cluster_may_take_the_jobs(cluster):
    cluster(broker_class=OTHER, ALT_CLUSTERS={"jobs": {"broker_class": OURS}})
    assert check_clusters() == []
    assert list(job_clusters()) == ["jobs"]


def test_another_cluster_inherits_the_broker_of_the_main_one(cluster):
    cluster(ALT_CLUSTERS={"slow": {"workers": 8, "queue_limit": 8}})
    assert check_clusters() == []
    assert list(job_clusters()) == ["default", "slow"]


def test_another_cluster_without_our_broker_does_not_help(cluster):
    cluster(broker_class=None, ALT_CLUSTERS={"slow": {"broker_class": OTHER}})
    assert ids(check_clusters()) == ["E010"]


@pytest.mark.parametrize(
    "path", ["no_such_module.Broker", "django_jobs.broker.NoSuchBroker", "JobBroker"]
)
def test_a_broker_that_cannot_be_imported(cluster, path):
    cluster(broker_class=path)
    [message] = check_clusters()
    assert ids([message]) == ["E009"]
    assert path in message.msg


def test_a_broken_broker_beside_a_good_one(cluster):
    cluster(ALT_CLUSTERS={"other": {"broker_class": "no_such_module.Broker"}})
    [message] = check_clusters()
    assert ids([message]) == ["E009"]
    assert "'other'" in message.msg


def test_sync_is_not_for_a_cluster(cluster):
    cluster(sync=True)
    assert ids(check_clusters()) == ["W003"]


def test_the_queue_inside_the_cluster_is_not_longer_than_its_workers(cluster):
    cluster(queue_limit=3)
    [message] = check_clusters()
    assert ids([message]) == ["W004"]
    assert '"queue_limit" to 2' in message.hint


def test_the_default_queue_limit_is_the_square_of_the_workers(cluster):
    cluster(queue_limit=None)
    assert "queue_limit of 4 for 2 workers" in check_clusters()[0].msg
    cluster(workers=1)
    assert check_clusters() == []


def test_without_a_number_there_is_a_worker_for_each_processor(cluster, monkeypatch):
    monkeypatch.setattr(clusters.os, "cpu_count", lambda: 4)
    cluster(workers=None, queue_limit=None)
    assert "queue_limit of 16 for 4 workers" in check_clusters()[0].msg


def test_clusters_that_take_no_jobs_get_no_advice(cluster):
    cluster(
        broker_class=OTHER,
        sync=True,
        queue_limit=100,
        ALT_CLUSTERS={"jobs": {"broker_class": OURS, "sync": False, "queue_limit": 2}},
    )
    assert check_clusters() == []
