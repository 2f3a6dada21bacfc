"""A process that holds many watches and counts their events. It does nothing else, so that it is not the bottleneck.

    python -m benchmarks.watchers URL TOKEN PATH COUNT

Prints `ready` when all watches are open. For each line `N` of its input it prints `N` when every watch has received N
events in total.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.client import Target, request_bytes, tls

# Each event is a line with this ending; HTTP chunks end differently.
END = b"}\n"
# The end of an answer; the connection stays open.
LAST_CHUNK = b"0\r\n\r\n"


class Watch:
    __slots__ = ("connection", "events", "tail")

    def __init__(self, target: Target, path: str, context: ssl.SSLContext) -> None:
        self.connection = context.wrap_socket(socket.create_connection(target.address))
        self.connection.sendall(request_bytes(target, "GET", path))
        received = b""
        while b"\r\n\r\n" not in received:
            received += self.connection.recv(1 << 12)
        head, _, body = received.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise SystemExit(f"the watch is refused: {head!r}")
        self.connection.setblocking(False)
        self.events = body.count(END)
        self.tail = body[-1:]

    def read(self, buffer: bytearray) -> None:
        """Reads what has been received."""
        try:
            while size := self.connection.recv_into(buffer):
                view = self.tail + buffer[:size]
                self.events += view.count(END)
                self.tail = bytes(view[-1:])
                if view.endswith(LAST_CHUNK):
                    break
            raise SystemExit("a watch was ended by the server")
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return


def main(url: str, token: str, path: str, count: str) -> None:
    target, context = Target(url, token), tls()
    watches = [Watch(target, path, context) for _ in range(int(count))]
    selector = selectors.DefaultSelector()
    for watch in watches:
        selector.register(watch.connection, selectors.EVENT_READ, watch)
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    print("ready", flush=True)
    buffer, wanted = bytearray(1 << 16), 0
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                key.data.read(buffer)
                continue
            line = sys.stdin.readline()
            if not line:
                return
            wanted = int(line)
        if wanted and all(watch.events >= wanted for watch in watches):
            print(wanted, flush=True)
            wanted = 0


class Watchers:
    """Processes that hold watches, controlled by the benchmark."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes

    def wait_for(self, events: int) -> None:
        """Waits until each watch of each process has received that many events in total."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{events}\n")
            process.stdin.flush()
        for process in self._processes:
            _expect(process, str(events))


@contextlib.contextmanager
def watching(target: Target, path: str, count: int, processes: int = 2) -> Iterator[Watchers]:
    """Opens `count` watches in several processes."""
    command = [sys.executable, "-m", "benchmarks.watchers", target.url, target.token, path]
    shares = [count // processes + (n < count % processes) for n in range(processes)]
    started = [
        subprocess.Popen([*command, str(share)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for share in shares
        if share
    ]
    try:
        for process in started:
            _expect(process, "ready")
        yield Watchers(started)
    finally:
        for process in started:
            process.kill()
            process.communicate()


def _expect(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    answer = process.stdout.readline().strip()
    if answer != word:
        raise SystemExit(f"the watchers' process said {answer!r}, not {word!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
