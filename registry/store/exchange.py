"""Calls of prepared statements without psycopg's cursors, for the few statements that most requests wait for.

A cursor serves any statement with any values: it parses the statement, looks for the type of each value, and tracks
what has been prepared. That takes some 30 µs of CPU a call more than the exchange of messages itself, as much as half a
get. Here a statement is prepared by its name at its first call on a connection, and its values are of a few types,
which the statement casts: `%(batch)s::bigint`.

    rows = await connection.call(COMMIT, {"batch": 7, "writes": RecordArray(...), "exact": False})

Rows, errors and time limits are those of psycopg. The protocol of libpq is that of its manual, chapter "Asynchronous
Command Processing".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.adapt import AdaptersMap, Transformer

from registry.store.arrays import BigintArray, RecordArray, TextArray
from registry.store.statements import Statement

# An integer is a bigint, whatever its size.
Value = int | bool | str | BigintArray | TextArray | RecordArray | None

_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")
_bigint: Final = Struct("!q").pack


class Prepared:
    """A statement that a connection has prepared. `parameters` are the names of its values, in the order of `$n`."""

    __slots__ = ("formats", "name", "parameters")

    def __init__(self, name: str, parameters: list[str]) -> None:
        self.name = name.encode()
        self.parameters = parameters
        self.formats = [pq.Format.BINARY] * len(parameters)


def numbered(text: str) -> tuple[str, list[str]]:
    """Returns a statement with numbered parameters, and their names: `SELECT %(a)s, %(b)s, %(a)s` gives
    `SELECT $1, $2, $1` and `["a", "b"]`."""
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return _PLACEHOLDER.sub(number, text).replace("%%", "%"), list(names)


def encode(value: Value) -> bytes | None:
    """Returns a value in PostgreSQL's binary format."""
    match value:
        case None:
            return None
        case bool():
            return b"\x01" if value else b"\x00"
        case int():
            return _bigint(value)
        case _:
            return value.encode()


class Exchange:
    """The calls of one connection, one at a time."""

    def __init__(self, pgconn: pq.abc.PGconn, adapters: AdaptersMap) -> None:
        self._pgconn = pgconn
        self._transformer = Transformer(adapters)
        self._prepared: dict[str, Prepared] = {}

    async def call(
        self, statement: Statement, values: Mapping[str, Value], limit_seconds: float | None = None
    ) -> list[tuple[Any, ...]]:
        """Returns the rows of the statement. Raises psycopg's errors, and TimeoutError beyond the limit.

        When cancelled, or beyond the limit, the connection is closed: the answer could be taken for that of the next
        call.
        """
        pgconn = self._pgconn
        deadline = None if limit_seconds is None else asyncio.get_running_loop().time() + limit_seconds
        try:
            try:
                result = await self._execute(statement, values, deadline)
            except psycopg.errors.InvalidSqlStatementName:
                # Deallocated, as psycopg does with all statements of a session after a DDL command. Nothing has run.
                del self._prepared[statement.name]
                result = await self._execute(statement, values, deadline)
        finally:
            if pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                pgconn.finish()
        transformer = self._transformer
        transformer.set_pgresult(result)
        try:
            return transformer.load_rows(0, result.ntuples, tuple)
        finally:
            transformer.set_pgresult(None)  # an idle connection does not keep what it has read

    async def _execute(
        self, statement: Statement, values: Mapping[str, Value], deadline: float | None
    ) -> pq.abc.PGresult:
        prepared = self._prepared.get(statement.name) or await self._prepare(statement, deadline)
        encoded = [encode(values[name]) for name in prepared.parameters]
        self._pgconn.send_query_prepared(prepared.name, encoded, prepared.formats, pq.Format.BINARY)
        return await self._result(deadline)

    async def _prepare(self, statement: Statement, deadline: float | None) -> Prepared:
        text, parameters = numbered(statement.sql)
        prepared = Prepared(f"registry {statement.name}", parameters)
        self._pgconn.send_prepare(prepared.name, text.encode())
        await self._result(deadline)
        self._prepared[statement.name] = prepared
        return prepared

    async def _result(self, deadline: float | None) -> pq.abc.PGresult:
        """Returns the result of what has been sent, of which there is exactly one. Raises it if it is an error."""
        pgconn, result = self._pgconn, None
        while pgconn.flush():
            # PostgreSQL may wait until its own messages are read.
            await self._wait(deadline, writable=True)
            pgconn.consume_input()
        while True:
            try:
                while pgconn.is_busy():
                    await self._wait(deadline)
                    pgconn.consume_input()
            except psycopg.OperationalError:
                if result is None:
                    raise
                break  # the connection ended with its last message, which is the reason
            following = pgconn.get_result()
            if following is None:
                break
            result = following
        if result is None:
            raise psycopg.OperationalError("the connection is lost")
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise psycopg.errors.error_from_result(result)
        return result

    async def _wait(self, deadline: float | None, *, writable: bool = False) -> None:
        """Returns when the socket is readable or, if asked for, writable. Raises TimeoutError at the deadline."""
        loop, socket = asyncio.get_running_loop(), self._pgconn.socket
        ready: asyncio.Future[None] = loop.create_future()
        timer = None if deadline is None else loop.call_at(deadline, _expire, ready)
        loop.add_reader(socket, _resolve, ready)
        if writable:
            loop.add_writer(socket, _resolve, ready)
        try:
            await ready
        finally:
            loop.remove_reader(socket)
            if writable:
                loop.remove_writer(socket)
            if timer is not None:
                timer.cancel()
            del ready  # its exception refers to this frame


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _expire(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_exception(TimeoutError())
