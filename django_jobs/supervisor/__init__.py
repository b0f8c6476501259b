"""``manage.py jobworker``: a cluster of django-q2 in the foreground, under a supervisor.

The supervisor is a small process that runs nothing of the host's. It starts the cluster in a
process group of its own, so that a signal to the supervisor's group reaches the supervisor alone;
stops it in order; starts another when it dies, or lives and takes up no job; and leaves nobody
behind: on Linux orphans become its children, and a cluster whose supervisor is killed stops.
"""

from django_jobs.supervisor.supervising import NoJobCluster, Supervisor

__all__ = ["NoJobCluster", "Supervisor"]
