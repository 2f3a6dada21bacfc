"""Several worker processes on one port: all serve, dead ones are replaced, shutdown is orderly."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.folders import data_folder
from tests.processes import ROOT, alive, children, environment, refusal, registry, wait_until
from tests.running import REGISTRY, running_server, start_server

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def supervisor(application: str = "telling", workers: int = 2) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The parent process and the URL that its workers serve."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.http.supervisor_process", application, str(workers)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            yield process, f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=60)


def answering(url: str) -> int | None:
    """The process that answers a new connection; None where none does."""
    try:
        return int(httpx.get(url, timeout=60).text)
    except httpx.TransportError:
        return None


def serving(url: str, expected: set[int]) -> bool:
    """Whether all these processes, and no others, are met within a few connections."""
    return {answering(url) for _ in range(12)} == expected


def test_all_workers_serve_and_a_killed_one_is_replaced() -> None:
    with supervisor() as (parent, url):
        first = children(parent.pid, "worker")
        assert len(first) == 2
        wait_until(lambda: serving(url, set(first)), "both workers answer")
        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: len(set(children(parent.pid, "worker")) - {first[0]}) == 2, "a worker in its place")
        now = children(parent.pid, "worker")
        assert first[1] in now, "the other one lives on"
        wait_until(lambda: serving(url, set(now)), "both workers answer")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_all_workers_gracefully(number: signal.Signals) -> None:
    with supervisor() as (parent, url):
        workers = children(parent.pid, "worker")
        with httpx.Client(base_url=url) as client, client.stream("GET", "/") as answer:
            answer.read()
            parent.send_signal(number)
            assert parent.wait(60) == 0
        assert not any(alive(pid) for pid in workers)
        assert answering(url) is None


def test_requests_in_flight_are_notified_and_answered() -> None:
    with supervisor(workers=2) as (parent, url):
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            connection.sendall(b"GET /stopping HTTP/1.1\r\nhost: x\r\n\r\n")
            # A worker has read the request once the kernel holds none of its bytes.
            wait_until(lambda: _unread(connection) == 0, "the request is read")
            parent.terminate()
            connection.settimeout(60)
            assert b"stopping" in b"".join(iter(lambda: connection.recv(4096), b""))
        assert parent.wait(60) == 0


def test_workers_end_when_the_parent_is_killed() -> None:
    with supervisor() as (parent, _):
        workers = children(parent.pid, "worker")
        parent.kill()
        wait_until(lambda: not any(alive(pid) for pid in workers), "the end of the workers")


def test_a_killed_server_frees_its_port_at_once() -> None:
    """Its workers kept it for the delay of a shutdown, in which the next server could not start."""
    with data_folder() as folder, socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        reserved.close()
        arguments = ("--workers", "2", "--port", str(port), "--shutdown-delay-seconds", "300")
        server = start_server(folder / "data", *arguments, detached=True)
        workers = children(server.process.pid, "worker")
        server.process.kill()
        server.process.wait(60)
        wait_until(lambda: _is_free(port), "a free port")
        wait_until(lambda: not any(alive(pid) for pid in workers), "the end of the workers")
        # It takes over the database of the other.
        with running_server(folder / "data", "--port", str(port)) as successor:
            assert successor.stop() == 0


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def test_workers_that_cannot_start_end_the_server() -> None:
    with supervisor("broken") as (parent, _):
        assert parent.wait(60) == 1
        # In the session of the parent, which is over: those that it left would have another parent now.
        assert [one for one in psutil.pids() if _session(one) == parent.pid] == []


@contextlib.contextmanager
def worker(
    application: str, listener: socket.socket, **settings: str
) -> Iterator[tuple[subprocess.Popen[str], socket.socket]]:
    """One worker process, and our end of its link."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "registry", "worker", "--listener", str(listener.fileno()),
             "--link", str(theirs.fileno()), "--number", "0", "--application", f"tests.http.applications:{application}"],
            pass_fds=[listener.fileno(), theirs.fileno()],
            env=environment(REGISTRY_PLAIN_HTTP="true", **settings),
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )  # fmt: skip
        try:
            theirs.close()
            yield process, ours
        finally:
            process.kill()
            process.wait()


def test_a_worker_whose_event_loop_is_held_ends_in_time() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        worker("holding", listener, REGISTRY_SHUTDOWN_SECONDS="1") as (process, link),
    ):
        assert link.recv(1) == b"r"
        with socket.create_connection(listener.getsockname()) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            wait_until(lambda: _unread(connection) == 0, "the request is read")
            wait_until(lambda: psutil.Process(process.pid).cpu_percent(0.2) > 20, "the loop is held")
            process.terminate()
            _, said = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "in hold" in said, "the traceback says what holds it"


def test_a_worker_whose_parent_never_listened_ends_too() -> None:
    """A parent that dies with our byte unread resets the connection instead of ending it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, worker("telling", listener) as (process, link):
        assert link.recv(1, socket.MSG_PEEK) == b"r"
        link.close()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "the parent process is gone" in said
        assert "Traceback" not in said


@pytest.mark.parametrize("workers", [1, 2])
def test_a_port_in_use_is_reported_in_one_line(workers: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = registry("serve", "--data-dir", tmp_path / "data", "--port", str(port), "--workers", str(workers))
    assert (
        refusal(done)
        == f"registry: cannot listen on 127.0.0.1 port {port}: Address already in use; choose another --port"
    )
    assert not (tmp_path / "data").exists(), "nothing was begun"


def test_the_command_ends_its_workers_and_its_database() -> None:
    with data_folder() as folder, running_server(folder / "data", "--workers", "2", command=REGISTRY) as server:
        workers, postgres = children(server.process.pid, "worker"), children(server.process.pid, "postgres")
        assert len(workers) == 2
        assert postgres
        # New connections go to both processes, so both know the token and the database.
        trust = ssl.create_default_context(cafile=str(server.authority))
        for _ in range(4):
            answer = httpx.get(
                f"{server.url}/api/v1/namespaces/default",
                headers={"Authorization": f"Bearer {server.token}"},
                verify=trust,
                timeout=60,
            )
            assert answer.status_code == 200
        assert server.stop() == 0
        assert not any(alive(pid) for pid in [*workers, *postgres])
        assert "Traceback" not in server.log


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _unread(connection: socket.socket) -> int:
    """How many of our bytes the other side of a local connection has not read yet (its receive queue, of Linux)."""
    ends = [connection.getpeername()[1], connection.getsockname()[1]]  # as the other side has them
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if [int(address.rpartition(":")[2], 16) for address in fields[1:3]] == ends and fields[3] == "01":
            return int(fields[4].rpartition(":")[2], 16)
    return -1


def test_connections_do_not_wait_for_a_worker_that_has_died() -> None:
    """While it starts again its sibling takes them; where all are dead they are refused at once."""
    with supervisor() as (process, url):
        pids = children(process.pid, "worker")
        wait_until(lambda: serving(url, set(pids)), "both serve")
        # It cannot come back while the parent is stopped.
        process.send_signal(signal.SIGSTOP)
        try:
            os.kill(pids[0], signal.SIGKILL)
            wait_until(lambda: not alive(pids[0]), "it is gone")
            assert {int(httpx.get(url, timeout=60).text) for _ in range(20)} == {pids[1]}
            os.kill(pids[1], signal.SIGKILL)
            wait_until(lambda: not alive(pids[1]), "both are gone")
            with pytest.raises(httpx.ConnectError):
                httpx.get(url, timeout=60)
        finally:
            process.send_signal(signal.SIGCONT)
        wait_until(lambda: answering(url) is not None, "one is back")
