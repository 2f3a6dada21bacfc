"""The least CPU time of a request: `python -m benchmarks.limits`.

For a get, a create, a page of 500 objects and a list of all, in µs of CPU a request under 16 connections (pages and
lists: 4):

    server, PostgreSQL   ours
    TLS alone            a server on the same event loop that sends bytes of the same length for every request, and
                         parses none
    SQL alone            PostgreSQL, for the same bodies in a table with nothing but a primary key: 16 by their keys,
                         500 in the order of keys, all by COPY, or 16 inserts a transaction, over one connection

The limit of a request is the sum of TLS alone and SQL alone; the rest is the cost of a multi-tenant API.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Final

import psutil
import psycopg
import uvloop

from benchmarks import server
from benchmarks.client import JSON, Connection, Target, spread
from benchmarks.data import thing
from benchmarks.report import keep, machine
from benchmarks.scale import GROUP, OBJECTS, prepare
from registry.http.serving.tls import server_context
from registry.postgres.folder import running_url

CONNECTIONS: Final = 16
PAGE_CONNECTIONS: Final = 4
PAGE: Final = 500
IN_TRANSACTION: Final = 16
BODY_BYTES: Final = 2_000

_Requests = list[tuple[str, str, bytes, str]]


@dataclass(frozen=True, slots=True)
class Limit:
    """µs of CPU a request."""

    name: str
    server: float
    postgres: float
    tls: float
    sql: float

    @property
    def ratio(self) -> float:
        """Our CPU time divided by the limit; infinite if there were too few requests to measure the limit."""
        limit = self.tls + self.sql
        return (self.server + self.postgres) / limit if limit else math.inf

    def __str__(self) -> str:
        ours = f"{self.server:9.0f} {self.postgres:11.0f}"
        return f"{self.name:14} {ours} {self.tls:10.0f} {self.sql:10.0f} {self.ratio:7.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with server.folder() as data, server.running(data, 1, None) as running:
        asyncio.run(prepare(running))
        found = measure(running, data, options.requests)
    print(f"{'':14} {'server':>9} {'PostgreSQL':>11} {'TLS alone':>10} {'SQL alone':>10} {'ratio':>7}")
    for row in found:
        print(row)
    kept = {"machine": machine(), "limits": {row.name: [row.server, row.postgres, row.tls, row.sql] for row in found}}
    print(f"\nkept in {keep('limits', kept)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__.partition("\n")[0])
    made.add_argument("--requests", type=int, default=2_000, help="gets and creates; of pages a twentieth")
    return made


def measure(running: server.Server, data: Path, count: int) -> list[Limit]:
    """Returns the rows. Creates one object for each request, and a page more."""
    body = json.dumps(thing(GROUP, "NAME", BODY_BYTES))
    creates: _Requests = [
        ("POST", OBJECTS, body.replace("NAME", f"made-{n:06}").encode(), JSON) for n in range(count + PAGE)
    ]
    asyncio.run(spread(running.target, creates[:PAGE], CONNECTIONS))
    gets: _Requests = [("GET", f"{OBJECTS}/made-{n % PAGE:06}", b"", JSON) for n in range(count)]
    pages: _Requests = [("GET", f"{OBJECTS}?limit={PAGE}", b"", JSON)] * max(1, count // 20)
    lists: _Requests = [("GET", OBJECTS, b"", JSON)] * max(2, count // 100)
    rows = [
        ("get", gets, CONNECTIONS, _read_some),
        ("create", creates[PAGE:], CONNECTIONS, _insert),
        (f"page of {PAGE}", pages, PAGE_CONNECTIONS, _read_page),
        (f"list of {count + PAGE}", lists, PAGE_CONNECTIONS, _copy_all),
    ]
    return [_row(running, data, *row) for row in rows]


def _row(
    running: server.Server,
    data: Path,
    name: str,
    requests: _Requests,
    connections: int,
    work: Callable[[psycopg.Connection[Any], int], None],
) -> Limit:
    # As long as what the server answers.
    size = asyncio.run(_length(running.target, requests[0]))
    before = running.usage()
    asyncio.run(spread(running.target, requests[1:], connections))
    used = running.usage().since(before)
    tls = _tls_alone(running.target, data, requests[1:], connections, size)
    sql = _sql_alone(data, work, len(requests) - 1)
    each = 1e6 / (len(requests) - 1)
    return Limit(name, each * used.server, each * used.postgres, each * tls, each * sql)


async def _length(target: Target, request: tuple[str, str, bytes, str]) -> int:
    connection = await Connection.open(target)
    _, answer = await connection.request(*request)
    await connection.close()
    return len(answer)


# TLS alone.


def _tls_alone(target: Target, data: Path, requests: _Requests, connections: int, size: int) -> float:
    """Returns the CPU seconds of a server that answers each request with `size` bytes."""
    ours, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(data, size, its))
    process.start()
    try:
        plain = Target(f"https://127.0.0.1:{ours.recv()}", target.token)
        asyncio.run(spread(plain, requests[:connections], connections))
        measured = psutil.Process(process.pid)
        before = measured.cpu_times()
        asyncio.run(spread(plain, requests, connections))
        after = measured.cpu_times()
        return float(after.user + after.system - before.user - before.system)
    finally:
        process.terminate()
        process.join()


def _serve(data: Path, size: int, ready: Pipe) -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size

    class Answering(asyncio.Protocol):
        """Detects the end of a request by its length: all requests of a connection are equally long."""

        def __init__(self) -> None:
            self._transport: Any = None
            self._read = b""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = transport

        def data_received(self, data: bytes) -> None:
            self._read += data
            head, found, body = self._read.partition(b"\r\n\r\n")
            if found and len(body) >= int(head.rpartition(b"Content-Length: ")[2]):
                self._read = b""
                self._transport.write(answer)

    async def serve() -> None:
        context = server_context(data / "tls" / "server.crt", data / "tls" / "server.key")
        listening = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, ssl=context)
        ready.send(listening.sockets[0].getsockname()[1])
        await listening.serve_forever()

    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(serve())


# SQL alone.

_TABLE: Final = """
    CREATE TABLE alone (key text COLLATE "C" PRIMARY KEY, body text NOT NULL);
    ALTER TABLE alone ALTER body SET STORAGE MAIN
"""
_FILL: Final = """
    INSERT INTO alone SELECT key, body FROM objects WHERE starts_with(key, 'default/made-') ORDER BY key LIMIT %s
"""


def _sql_alone(data: Path, work: Callable[[psycopg.Connection[Any], int], None], count: int) -> float:
    """Returns the CPU seconds of the backend."""
    found = running_url(data / "postgres")
    assert found is not None
    with psycopg.connect(found[0], autocommit=True, prepare_threshold=0) as connection:
        connection.execute(_TABLE, prepare=False)
        try:
            connection.execute(_FILL, (None if work is _copy_all else PAGE,))
            work(connection, IN_TRANSACTION)
            backend = psutil.Process(connection.info.backend_pid)
            before = backend.cpu_times()
            work(connection, count)
            after = backend.cpu_times()
        finally:
            connection.execute("DROP TABLE alone")
    return float(after.user + after.system - before.user - before.system)


def _read_some(connection: psycopg.Connection[Any], count: int) -> None:
    keys = [f"default/made-{n:06}" for n in range(IN_TRANSACTION)]
    for _ in range(count // IN_TRANSACTION):
        connection.execute("SELECT key, body FROM alone WHERE key = ANY (%s)", (keys,), binary=True).fetchall()


def _read_page(connection: psycopg.Connection[Any], count: int) -> None:
    for _ in range(count):
        connection.execute("SELECT key, body FROM alone ORDER BY key LIMIT %s", (PAGE,), binary=True).fetchall()


def _copy_all(connection: psycopg.Connection[Any], count: int) -> None:
    for _ in range(count):
        with connection.cursor().copy("COPY (SELECT key, body FROM alone ORDER BY key) TO STDOUT") as rows:
            for _ in rows:
                pass


def _insert(connection: psycopg.Connection[Any], count: int) -> None:
    body = connection.execute("SELECT body FROM alone ORDER BY key LIMIT 1").fetchone()
    assert body is not None
    for start in range(0, count, IN_TRANSACTION):
        with connection.transaction():
            for number in range(start, min(start + IN_TRANSACTION, count)):
                key = f"{count}/{number}"
                connection.execute("INSERT INTO alone (key, body) VALUES (%s, %s)", (key, body[0]))


if __name__ == "__main__":
    sys.exit(main())
