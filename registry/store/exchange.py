"""Calls of statements without psycopg's cursors.

A cursor serves any statement with any values: it parses the statement, looks for the type of each value, tracks what
has been prepared, and has a task woken for each part of the answer. That takes some 70 µs of CPU a call more than the
exchange of messages itself, as much as a get. Here the statement says of which type its values are, by casts
(`%(batch)s::bigint`) or by the columns that it compares them with, and is prepared at its first call on a connection.

    rows = await connection.call(COMMIT, {"batch": 7, "writes": RecordArray(...), "exact": False})

Rows, errors and time limits are those of psycopg. The protocol of libpq is that of its manual, chapter "Asynchronous
Command Processing".
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import re
import select
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.adapt import AdaptersMap, Transformer

from registry.store.arrays import BigintArray, RecordArray, TextArray
from registry.store.statements import Statement

Value = int | bool | float | str | bytes | datetime | BigintArray | TextArray | RecordArray | None

Record = tuple[Any, ...]
# Called with a result, or with the error.
Done = Callable[[pq.abc.PGresult | None, Exception | None], None]
RowsDone = Callable[[Sequence[Record], Exception | None], None]

# Statements that a connection prepares: PostgreSQL keeps the plan of each. Further ones are planned at each call.
MAX_PREPARED: Final = 100
# How often the socket of a call that waits is read without being reported as readable.
_POLL_SECONDS: Final = 1.0

_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s")


class CallTimeout(psycopg.OperationalError):
    """A call exceeded its time limit; the connection is closed."""


class Prepared:
    """A statement that a connection has prepared by this name; "" is none. `parameters` are the names of its values, in
    the order of `$n`."""

    __slots__ = ("name", "parameters", "text")

    def __init__(self, name: str, sql: str) -> None:
        self.name = name.encode()
        text, self.parameters = numbered(sql)
        self.text = text.encode()


def numbered(text: str) -> tuple[str, list[str]]:
    """Returns a statement with numbered parameters, and their names: `SELECT %(a)s, %(b)s, %(a)s` gives
    `SELECT $1, $2, $1` and `["a", "b"]`."""
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return _PLACEHOLDER.sub(number, text).replace("%%", "%"), list(names)


def encode(value: Value) -> tuple[bytes | None, int]:
    """Returns a value, and whether that is PostgreSQL's text format or the binary one. Numbers are texts, which fit
    into any type of number."""
    match value:
        case str():
            if "\x00" in value:  # where PostgreSQL would end the text
                raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
            return value.encode(), _TEXT
        case bool():
            return (b"t" if value else b"f"), _TEXT
        case int():
            return b"%d" % value, _TEXT
        case None:
            return None, _TEXT
        case bytes():
            return value, _BINARY
        case float():
            return repr(value).encode(), _TEXT
        case datetime():
            return value.isoformat().encode(), _TEXT
        case _:
            return value.encode(), _BINARY


_TEXT: Final = pq.Format.TEXT
_BINARY: Final = pq.Format.BINARY


class Exchange:
    """The calls of one connection, one at a time.

    The event loop watches the socket from the first call on, so that a call registers nothing, and its answer is
    read in the callback of the socket: each iteration of the loop that a call takes more is one in which other threads
    may hold the interpreter. Before anything else reads from the connection, `detach` must be called.

    Of a connection that was reset, uvloop reports once that its socket can be read, and then no more (libuv ends the
    watch of a socket with POLLERR). What had come before the reset is read then, such as the message that PostgreSQL
    ends; so the rest is polled for.
    """

    def __init__(self, pgconn: pq.abc.PGconn, adapters: AdaptersMap) -> None:
        self._pgconn = pgconn
        self._transformer = Transformer(adapters)
        # By their texts: statements of one name may differ in the columns or conditions that they include.
        self._prepared: dict[str, Prepared] = {}
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        # The watched socket, and whether it is watched for room to write, too.
        self._socket: int | None = None
        self._writes = False
        # Whether the rest will be read without a report.
        self._continues = False
        # What waits for the result of what has been sent, the result so far, and when it is late. The timer polls
        # the socket until then.
        self._done: Done | None = None
        self._result: pq.abc.PGresult | None = None
        self._deadline = inf
        self._limit_seconds = inf
        self._timer: asyncio.Handle | None = None
        self._timer_at = inf

    async def call(
        self,
        statement: Statement,
        values: Mapping[str, Value],
        limit_seconds: float | None = None,
        *,
        prepare: bool = True,
        finishes: bool = False,
    ) -> list[Record]:
        """Returns the rows of the statement. Without `prepare` it is planned for these values. Raises psycopg's errors,
        CallTimeout beyond the limit.

        Beyond the limit the connection is closed: the answer could be taken for that of the next call. So it is when
        cancelled, unless the call `finishes`: then it ends with the statement.
        """
        deadline = self._limit(limit_seconds)
        try:
            try:
                return await self._execute(statement, values, deadline, prepare=prepare)
            except psycopg.errors.InvalidSqlStatementName:
                # Deallocated, as psycopg does with all statements of a session after a DDL command. Nothing has run.
                self._prepared.pop(statement.sql, None)
                return await self._execute(statement, values, deadline, prepare=prepare)
        except asyncio.CancelledError:
            if finishes and self._done is not None:
                await self._end_of_call()
            raise
        finally:
            self._check()

    def begin(
        self, statement: Statement, values: Mapping[str, Value], done: RowsDone, limit_seconds: float | None
    ) -> bool:
        """Sends a statement that is prepared already, and has `done` called, once, in a later iteration of the event
        loop, with the rows or the error that `call` would raise. False: it is not prepared, or not that easily sent.
        Raises psycopg's errors."""
        prepared = self._prepared.get(statement.sql)
        if prepared is None or self._done is not None or self._pgconn.status != pq.ConnStatus.OK:
            return False

        def finish(result: pq.abc.PGresult | None, error: Exception | None) -> None:
            if isinstance(error, psycopg.errors.InvalidSqlStatementName):
                self._prepared.pop(statement.sql, None)
            done(() if result is None else self._rows(result), error)

        try:
            self._send(prepared, values)
            self._wait(finish, self._limit(limit_seconds))
        except psycopg.Error:
            self._check()
            raise
        return True

    def close(self) -> None:
        """Closes the connection; a call that waits fails."""
        self.detach()
        self._pgconn.finish()
        self._complete(psycopg.OperationalError("the connection was closed"))

    def detach(self) -> None:
        """Stops watching the socket, before somebody else reads from it. No call may be waiting."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            if self._writes:
                self._loop.remove_writer(self._socket)
            self._socket, self._writes = None, False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _execute(
        self, statement: Statement, values: Mapping[str, Value], deadline: float, *, prepare: bool
    ) -> list[Record]:
        prepared = self._prepared.get(statement.sql)
        if prepared is None:
            if prepare and len(self._prepared) < MAX_PREPARED:
                prepared = await self._prepare(statement, deadline)
            else:
                prepared = Prepared("", statement.sql)
        self._send(prepared, values)
        return self._rows(await self._await_result(deadline))

    def _send(self, prepared: Prepared, values: Mapping[str, Value]) -> None:
        encoded, formats = [], []
        for name in prepared.parameters:
            value, form = encode(values[name])
            encoded.append(value)
            formats.append(form)
        if prepared.name:
            self._pgconn.send_query_prepared(prepared.name, encoded, formats, _BINARY)
        else:
            self._pgconn.send_query_params(prepared.text, encoded, None, formats, _BINARY)

    def _rows(self, result: pq.abc.PGresult) -> list[Record]:
        transformer = self._transformer
        transformer.set_pgresult(result)
        try:
            return transformer.load_rows(0, result.ntuples, tuple)
        finally:
            transformer.set_pgresult(None)  # an idle connection does not keep what it has read

    async def _prepare(self, statement: Statement, deadline: float) -> Prepared:
        prepared = Prepared(f"registry {statement.name} {next(self._numbers)}", statement.sql)
        self._pgconn.send_prepare(prepared.name, prepared.text)
        await self._await_result(deadline)
        self._prepared[statement.sql] = prepared
        return prepared

    async def _await_result(self, deadline: float) -> pq.abc.PGresult:
        """Returns the result of what has been sent, of which there is exactly one. Raises it if it is an error."""
        future: asyncio.Future[pq.abc.PGresult] = self._loop.create_future()
        self._wait(partial(_resolve, future), deadline)
        try:
            return await future
        finally:
            del future  # its exception refers to this frame

    async def _end_of_call(self) -> None:
        """Waits until what has been sent has a result, or an error."""
        ended: asyncio.Future[None] = self._loop.create_future()
        self._done = lambda _, __: None if ended.done() else ended.set_result(None)
        await ended

    def _limit(self, seconds: float | None) -> float:
        """Returns the deadline of a call."""
        self._limit_seconds = inf if seconds is None else seconds
        return self._loop.time() + self._limit_seconds

    # -- the event loop's side
    def _wait(self, done: Done, deadline: float) -> None:
        self._done, self._deadline = done, deadline
        self._attach()
        if self._timer is None or self._timer_at > deadline:
            self._set_timer()
        self._flush()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # The handle does not say when: uvloop has no TimerHandle for what is due within half a millisecond.
        self._timer_at = min(self._deadline, self._loop.time() + _POLL_SECONDS)
        self._timer = contextvars.Context().run(self._loop.call_at, self._timer_at, self._poll)

    def _attach(self) -> None:
        if self._socket is None:
            self._socket = self._pgconn.socket
            # In a context of its own: the callbacks do not belong to the request that happens to register them.
            contextvars.Context().run(self._loop.add_reader, self._socket, self._readable)

    def _flush(self) -> None:
        """Sends what libpq has buffered. It may send more when PostgreSQL has read, for which it may wait until its own
        messages are read."""
        assert self._socket is not None
        left = bool(self._pgconn.flush())
        if left and not self._writes:
            contextvars.Context().run(self._loop.add_writer, self._socket, self._readable)
        elif self._writes and not left:
            self._loop.remove_writer(self._socket)
        self._writes = left

    def _readable(self) -> None:
        if self._socket is None:
            return  # detached since it was seen that there is more
        pgconn = self._pgconn
        error: Exception | None = None
        try:
            pgconn.consume_input()
            if self._writes:
                self._flush()
            is_over = self._done is not None and self._take_results()
        except psycopg.Error as broken:
            error, is_over = broken, True
        if pgconn.status != pq.ConnStatus.OK:
            self.detach()  # libpq has closed the socket
        if is_over:
            self._complete(error)
        elif self._socket is not None and not self._continues and _can_be_read(self._socket):
            self._continues = True
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        self._continues = False
        self._readable()

    def _take_results(self) -> bool:
        """Returns whether all of the answer has been read."""
        while not self._pgconn.is_busy():
            following = self._pgconn.get_result()
            if following is None:
                return True
            self._result = following
        return False

    def _complete(self, error: Exception | None) -> None:
        done, result = self._done, self._result
        if done is None:
            return
        self._done = self._result = None
        if result is not None:
            # If the connection ended with its last message, that is the reason.
            error = None
            if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
                error = psycopg.errors.error_from_result(result)
        elif error is None:
            error = psycopg.OperationalError("the connection is lost")
        done(result if error is None else None, error)

    def _poll(self) -> None:
        """Ends the call if it is late, else reads what has come without a report; there is one timer for all calls that
        follow one another."""
        self._timer = None
        if self._done is None:
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
            self._readable()
            return
        done = self._done
        self._check()
        done(None, CallTimeout(f"PostgreSQL has not answered for {self._limit_seconds:.0f} s"))

    def _check(self) -> None:
        """Closes the connection if a call has ended before its result came, and gives it up if it is closed."""
        if self._pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
            self.detach()
            self._pgconn.finish()
        elif self._pgconn.status != pq.ConnStatus.OK:
            self.detach()
        else:
            return
        self._done = self._result = None


def _can_be_read(socket: int) -> bool:
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


def _resolve(future: asyncio.Future[pq.abc.PGresult], result: pq.abc.PGresult | None, error: Exception | None) -> None:
    if future.done():
        return
    if result is not None:
        future.set_result(result)
    else:
        assert error is not None
        future.set_exception(error)
