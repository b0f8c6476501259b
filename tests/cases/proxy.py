"""A network between workers and their database that can be cut, and that can lose replies."""

import contextlib
import socket
import threading
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings


class Proxy:
    """Forwards connections to the server of the tests, until ``cut()``; again after ``mend()``.

    With ``loses`` N, of the commits of steps of jobs each N-th happens, but its reply is lost with
    its connection; ``lost`` counts them.
    """

    VARIABLES = {"postgres": "POSTGRES_URL", "mariadb": "MARIADB_URL"}

    def __init__(self, loses=0):
        self.lost = 0
        self._loses = loses
        self._commits = 0
        self._counting = threading.Lock()
        self._server = urlsplit(settings.URLS[settings.DATABASE])
        self._sockets = []
        self._listener = self._listen(0)
        self._port = self._listener.getsockname()[1]

    @property
    def environment(self):
        """What sends a process through here."""
        user, _, _ = self._server.netloc.rpartition("@")
        netloc = f"{user}@127.0.0.1:{self._port}"
        url = urlunsplit(self._server._replace(netloc=netloc))
        return {self.VARIABLES[settings.DATABASE]: url}

    def cut(self):
        """Refuse new connections and end the old ones."""
        _end(self._listener)
        for each in self._sockets:
            _end(each)
        self._sockets.clear()

    def mend(self):
        self._listener = self._listen(self._port)

    def _listen(self, port):
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()
        return listener

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:  # cut
                return
            far = socket.create_connection((self._server.hostname, self._server.port))
            self._sockets += [near, far]
            line = Line(self, near, far)
            for way in (line.ask, line.reply):
                threading.Thread(target=way, daemon=True).start()

    def loses_reply(self):
        """Say whether the reply to the commit that was just seen is to be lost."""
        with self._counting:
            self._commits += 1
            is_lost = self._loses and self._commits % self._loses == 0
            self.lost += bool(is_lost)
            return is_lost


class Line:
    """One connection through the proxy."""

    STEP, END = b"django_jobs_jobtransition", (b"COMMIT", b"ROLLBACK")

    def __init__(self, proxy, near, far):
        self._proxy, self._near, self._far = proxy, near, far
        self._has_step = self._is_mute = False

    def ask(self):
        _pump(self._near, self._far, self._note)

    def reply(self):
        _pump(self._far, self._near, self._is_heard)

    def _note(self, data):
        if self.STEP in data and b"INSERT" in data:
            self._has_step = True
        if any(word in data for word in self.END):
            if self._has_step and b"COMMIT" in data:
                self._is_mute = self._proxy.loses_reply()
            self._has_step = False
        return True

    def _is_heard(self, _data):
        return not self._is_mute


def _pump(source, target, lets_pass):
    with contextlib.suppress(OSError):
        while (data := source.recv(65536)) and lets_pass(data):
            target.sendall(data)
    _end(source)
    _end(target)


def _end(each):
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
