"""Guarantees for watching clients: no lost event across a restart, and no memory held for those that stop reading."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from tests.clients.kinds import Kind, connected, defined, until
from tests.folders import data_folder
from tests.replication import free_port
from tests.running import RunningServer, running_server, start_server

WRITES = 300
RESTART_AFTER = 100


@pytest.fixture
def own_kind() -> Iterator[Kind]:
    with (
        data_folder() as folder,
        running_server(folder / "data", "--port", str(free_port())) as server,
        defined(server, "g.example.com", "n") as k,
    ):
        yield k


class Watcher(threading.Thread):
    """Watches from a revision on until it has seen `enough`, and connects again whenever the stream ends."""

    def __init__(self, kind: Kind, revision: str, enough: int) -> None:
        super().__init__(daemon=True)
        self._kind = kind
        self._revision = revision
        self._enough = enough
        self.connections = 0
        self.seen: list[tuple[str, str]] = []
        self.last_specs: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        while len(self.seen) < self._enough:
            try:
                self._watch()
            except httpx.HTTPError:
                time.sleep(0.05)

    def _watch(self) -> None:
        query = {"watch": "true", "resourceVersion": self._revision, "allowWatchBookmarks": "true"}
        with connected(self._kind.server) as http, http.stream("GET", self._kind.path, params=query) as answer:
            answer.raise_for_status()
            self.connections += 1
            for line in answer.iter_lines():
                event = json.loads(line)
                metadata = event["object"]["metadata"]
                self._revision = metadata["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.last_specs[metadata["name"]] = event["object"].get("spec") or {}
                    self.seen.append((event["type"], metadata["name"]))
                if len(self.seen) >= self._enough:
                    return


def test_a_watch_resumes_through_a_restart(own_kind: Kind) -> None:
    """While one client writes and another watches, the server is stopped and started again."""
    server = own_kind.server
    with connected(server) as http:
        revision = http.get(own_kind.path).json()["metadata"]["resourceVersion"]
    watcher = Watcher(own_kind, revision, enough=WRITES)
    watcher.start()
    with restarting(server) as restart:
        acknowledged = []
        for number in range(WRITES):
            if number == RESTART_AFTER:
                restart.start()
            acknowledged.append(_create(own_kind, f"g{number:04}"))
        watcher.join(120)
    assert watcher.seen == [("ADDED", name) for name in acknowledged]
    assert watcher.connections >= 2, "the restart has ended the first watch"


@contextlib.contextmanager
def restarting(server: RunningServer) -> Iterator[threading.Thread]:
    """A thread, to be started, that restarts the server on its port. The new one is stopped after the block."""
    started: list[RunningServer] = []

    def restart() -> None:
        server.stop()
        started.append(start_server(server.data_dir, "--port", str(server.port)))

    thread = threading.Thread(target=restart)
    try:
        yield thread
    finally:
        thread.join(240)
        for again in started:
            again.stop()


def _create(kind: Kind, name: str) -> str:
    """Tries until the server has answered; one that had been made before the answer was lost is there."""
    while True:
        try:
            with connected(kind.server) as http:
                answer = http.post(kind.path, json=kind.gadget(name, size=1))
            if answer.status_code in (201, 409):
                return name
        except httpx.HTTPError:
            pass
        time.sleep(0.05)


def test_a_watcher_that_does_not_read_takes_no_memory(own_kind: Kind) -> None:
    """Ten watchers never read a byte while each is sent 90 MB of events."""
    server = own_kind.server
    process = psutil.Process(server.process.pid)
    text = "x" * 300_000
    with connected(server) as http:
        http.post(own_kind.path, json=own_kind.gadget("a", text=text)).raise_for_status()
        watchers = [_watch_without_reading(own_kind) for _ in range(10)]
        try:
            # Up to here the ring of recent changes is filled, 48 MiB that all watchers share, and each connection.
            _rewrite(http, own_kind, text, times=200)
            before = process.memory_info().rss
            _rewrite(http, own_kind, text, times=100)
            grown = process.memory_info().rss - before
        finally:
            for watcher in watchers:
                watcher.close()
    print(f"grown by {grown / 2**20:.1f} MiB")
    assert grown < 15 * 2**20, "each watcher has been sent 30 MB more since"


def _rewrite(http: httpx.Client, kind: Kind, text: str, times: int) -> None:
    for number in range(times):
        http.patch(
            f"{kind.path}/a",
            json={"spec": {"text": f"{number}{text}"}},
            headers={"Content-Type": "application/merge-patch+json"},
        ).raise_for_status()


def _watch_without_reading(kind: Kind) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=str(kind.server.authority))
    raw = socket.create_connection(("127.0.0.1", kind.server.port))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    watcher = context.wrap_socket(raw, server_hostname="127.0.0.1")
    watcher.sendall(
        f"GET {kind.path}?watch=true HTTP/1.1\r\nHost: registry\r\n"
        f"Authorization: Bearer {kind.server.token}\r\n\r\n".encode()
    )
    return watcher


def test_a_watch_shows_what_a_new_schema_brings(own_kind: Kind) -> None:
    """A watch that began before a field was defined is ended, and the one that resumes it shows the field."""
    definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{own_kind.plural}.{own_kind.group}"
    added = {
        "op": "add",
        "value": {"type": "integer"},
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/weight",
    }
    with connected(own_kind.server) as http:
        http.post(own_kind.path, json=own_kind.gadget("a", size=1)).raise_for_status()
        watcher = Watcher(own_kind, "0", enough=3)
        watcher.start()
        until(lambda: len(watcher.seen) == 1)
        http.patch(
            definition, content=json.dumps([added]), headers={"Content-Type": "application/json-patch+json"}
        ).raise_for_status()
        http.post(own_kind.path, json=own_kind.gadget("b", weight=7)).raise_for_status()
        http.delete(f"{own_kind.path}/a").raise_for_status()
    watcher.join(120)
    assert watcher.seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert watcher.last_specs["b"]["weight"] == 7
