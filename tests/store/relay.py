"""A relay in front of PostgreSQL that resets a connection right after some of what PostgreSQL has sent."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
from collections.abc import Iterator

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a close sends RST
_PATIENCE_SECONDS = 60.0


class Relay:
    """Serves one connection, in a thread. `was_reset` is set once it has been reset."""

    def __init__(self, listener: socket.socket, server: str) -> None:
        self._listener = listener
        self._server = server
        self._limit: int | None = None
        self.was_reset = threading.Event()

    def reset_after(self, count: int) -> None:
        """Passes on so many bytes of what comes from PostgreSQL next; its end counts as well."""
        self._limit = count

    def run(self) -> None:
        client, _ = self._listener.accept()
        with client, _connected(self._server) as server, selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while ready := selector.select(_PATIENCE_SECONDS):
                for key, _ in ready:
                    data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    if key.fileobj is server and self._limit is not None and data:
                        client.sendall(data[: self._limit])
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        client.close()
                        self.was_reset.set()
                        return
                    if not data:
                        return
                    (server if key.fileobj is client else client).sendall(data)


def _connected(url: str) -> socket.socket:
    given = conninfo_to_dict(url)
    host, port = str(given["host"]), int(given.get("port") or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    made = socket.socket(socket.AF_UNIX)
    made.connect(f"{host}/.s.PGSQL.{port}")
    return made


@contextlib.contextmanager
def relayed(url: str) -> Iterator[tuple[Relay, str]]:
    """Yields a relay, and the connection string of the same database through it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_PATIENCE_SECONDS)
        relay = Relay(listener, url)
        thread = threading.Thread(target=relay.run)
        thread.start()
        try:
            host, port = listener.getsockname()
            yield relay, make_conninfo(url, host=host, port=port)
        finally:
            thread.join()
