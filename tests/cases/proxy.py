"""A network between workers and their database that can be cut."""

import contextlib
import socket
import threading
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings


class Proxy:
    """Forwards connections to the server of the tests, until ``cut()``; again after ``mend()``."""

    VARIABLES = {"postgres": "POSTGRES_URL", "mariadb": "MARIADB_URL"}

    def __init__(self):
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
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=[source, target], daemon=True).start()


def _pump(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    _end(source)
    _end(target)


def _end(each):
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
