"""Process trees of ``manage.py jobworker``, struck at random, and started again as by systemd."""

import contextlib
import itertools
import os
import random
import signal

import psutil

from tests.clusters.processes import Cluster, wait_for


class Tree:
    """Stands until the end of the ``with``, whatever is done to it. ``kills`` counts by victim."""

    def __init__(self, folder, name, kills, **options):
        self._folder, self._name, self._options = folder, name, options
        self._numbers = itertools.count(1)
        self._kills = kills
        self._cluster = None

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *error):
        self._cluster.__exit__(*error)

    def strike(self):
        """Kill one of its processes, or all."""
        victims = self._victims()
        who = random.choice(["whole cluster", *victims])
        self._kills[who] += 1
        if who == "whole cluster":
            self._kill(self._pids())
            self._cluster.__exit__(None, None, None)
            self._start()
        else:
            self._kill([random.choice(victims[who])])

    def is_whole(self):
        """Say whether all its processes are there and workers wait for jobs or run them."""
        return set(self._victims()) == {"main", "sentinel", "pusher", "monitor", "worker"}

    def output(self):
        """What all its incarnations have said."""
        return "".join(path.read_text() for path in self._folder.glob(f"{self._name}-*.log"))

    def _start(self):
        name = f"{self._name}-{next(self._numbers)}"
        self._cluster = Cluster(self._folder, name=name, command=("jobworker",), **self._options)
        self._cluster.__enter__()

    def _victims(self):
        """Return the processes by what they are, of those that are there and are ours."""
        ours = self._pids()
        found = {"worker": self._cluster.worker_pids()}
        with contextlib.suppress(psutil.NoSuchProcess, IndexError):
            found["pusher"] = [self._cluster.process_named("pushing tasks")]
            found["monitor"] = [self._cluster.process_named("monitoring")]
            found["main"] = [self._cluster.main_pid()]
            found["sentinel"] = [self._cluster.guard_pid()]
        alive = {who: [pid for pid in pids if pid in ours] for who, pids in found.items()}
        return {who: pids for who, pids in alive.items() if pids}

    def _pids(self):
        supervisor = self._cluster.process.pid
        return [supervisor, *(child.pid for child in self._cluster.children())]

    def _kill(self, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def wait_until_whole(trees):
    wait_for(lambda: all(tree.is_whole() for tree in trees), 60, "all trees stand")
