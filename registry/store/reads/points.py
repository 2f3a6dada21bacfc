"""Batched point reads: reads issued in one iteration of the event loop, or while all connections are busy, are one
query.

Ten keys in a query cost the process a third of ten queries, fifty a seventh (docs: facts on PostgreSQL). Equal requests
share one result. Each result carries the tenant's state from the same snapshot as the row.

A tenant that has just read a large object shares no query with others, and such tenants leave one connection free, so
that nobody waits for their megabytes.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, cast

import psycopg

from registry import tracing
from registry.caches import ExpiringCache
from registry.store.arrays import BigintArray, TextArray
from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.database import Database
from registry.store.errors import Closed, StoreError, TenantNotFound, Unavailable
from registry.store.exchange import Value
from registry.store.session import Connection
from registry.store.statements import Statement, statement
from registry.store.translate import is_transient, translate
from registry.store.types import Guards, ObjectKey, ResourceName, Row, State, Tenant, TenantId

logger = logging.getLogger(__name__)

_CONNECTIONS: Final = 2

# Larger batches gain little and delay the first caller.
MAX_KEYS: Final = 100

# A body from which on a read is large: PostgreSQL takes milliseconds for some of them.
LARGE_BYTES: Final = 64 * 1024
# For how long after a large read the next is expected to be large, too, and for how many tenants.
_LARGE_SECONDS: Final = 10.0
_MANY_LARGE: Final = 1_000

# The queue; at 15,000 reads a second this is more than a second's worth.
MAX_WAITING: Final = 20_000

# A batch of lookups takes milliseconds. After this time without a response the connection counts as frozen.
ANSWER_SECONDS: Final = 5.0

# The column of the body.
_BODY: Final = 8
_LOAD: Final = """
    SELECT w.ordinal, d.revision, t.definitions_revision, t.namespaces_revision,
        o.uid, o.revision AS changed, o.version, o.schema_id, o.body
    FROM unnest(%(tenants)s::bigint[], %(resources)s::text[], %(keys)s::text[])
        WITH ORDINALITY AS w (tenant_id, resource, key, ordinal)
    CROSS JOIN LATERAL (
        SELECT t.domain_id, t.definitions_revision, t.namespaces_revision FROM tenants t
        WHERE t.id = w.tenant_id AND t.deleted_at IS NULL OFFSET 0
    ) t
    CROSS JOIN LATERAL (SELECT d.revision FROM domains d WHERE d.id = t.domain_id OFFSET 0) d
    LEFT JOIN LATERAL (
        SELECT o.uid, o.revision, o.version, o.schema_id, o.body FROM objects o
        WHERE o.tenant_id = w.tenant_id AND o.resource = w.resource AND o.key = w.key OFFSET 0
    ) o ON true
"""

LOAD_ONE: Final = statement("load", "An object by its key, with the state of its tenant; by the primary keys.", _LOAD)

LOAD: Final = statement(
    "load-some",
    "Objects by their keys, with the states of their tenants, the first up to some bytes; by the primary keys of"
    " tenants, domains and objects.",
    within_bytes(_LOAD, "r.ordinal", "coalesce(octet_length(r.body), 0)"),
)

Loaded = tuple[Row | None, State]
# Called with what was loaded, or with why it could not be.
Done = Callable[[Loaded | None, StoreError | None], None]
_Which = tuple[TenantId, str, str]
_Batch = dict[_Which, list[Done]]
_Records = Sequence[tuple[Any, ...]]


class _Reader:
    """A connection of the reader, once it is open. `is_large` says what it reads."""

    __slots__ = ("connection", "is_large")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.is_large = False

    def begin(self, keys: list[_Which], done: Callable[[_Records, Exception | None], None]) -> bool:
        """Begins to read, if the connection has read before and is usable."""
        try:
            return self.connection is not None and self.connection.begin(*_call(keys), done)
        except psycopg.Error:
            return False


class PointReader:
    """Reads by callbacks while its connections are usable: each task that has to be woken takes another iteration of
    the event loop, and in each of them another thread may hold the interpreter."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._idle = [_Reader() for _ in range(_CONNECTIONS)]
        # What waits: small and large reads; and how many connections are free for large ones.
        self._waiting: list[_Batch] = [{}, {}]
        self._free_for_large = _CONNECTIONS - 1
        self._large: ExpiringCache[TenantId, bool] = ExpiringCache(_MANY_LARGE)
        # The tracing spans of waiting requests, if tracing is on.
        self._spans: list[Any] = []
        # Whether `_flush` is due.
        self._flushes = False
        # Batches of connections that have to be opened first, and those that are traced.
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._idled = asyncio.Event()

    async def load(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> Loaded:
        """Returns the current object, or None, and the tenant's state in the same snapshot. Raises TenantNotFound,
        Unavailable."""
        if not (_storable(resource) and _storable(key)):
            # What PostgreSQL cannot store does not exist.
            return None, await self.state(tenant)
        return await self._ask((tenant.id, resource, key))

    def begin(self, tenant: Tenant, resource: ResourceName, key: ObjectKey, done: Done) -> None:
        """Like `load`, for ASCII; `done` is called once, in a later iteration of the event loop. Raises Closed and
        Unavailable if there is no use in waiting."""
        self._add((tenant.id, resource, key), done)

    async def state(self, tenant: Tenant) -> State:
        # No object has an empty key.
        return (await self._ask((tenant.id, "", "")))[1]

    async def close(self) -> None:
        self._closing = True
        while any(self._waiting) or len(self._idle) < _CONNECTIONS:
            self._idled.clear()
            self._flush()
            await self._idled.wait()
        await asyncio.gather(*self._tasks)
        for reader in self._idle:
            if reader.connection is not None:
                await reader.connection.close()

    async def _ask(self, which: _Which) -> Loaded:
        future: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
        self._add(which, partial(_resolve, future))
        return await future

    def _add(self, which: _Which, done: Done) -> None:
        if self._closing:
            raise Closed("the store is closed")
        self._database.require()
        if sum(map(len, self._waiting)) >= MAX_WAITING:
            raise Unavailable("too many reads wait")
        if tracing.is_on():
            self._spans.append(tracing.current())
        waiting = self._waiting[self._large.get(which[0]) is not None]
        askers = waiting.get(which)
        if askers is not None:
            askers.append(done)
            return
        waiting[which] = [done]
        if len(self._idle) == _CONNECTIONS:
            # Nothing to wait for: no other read is under way.
            self._flush()
        elif self._idle and not self._flushes:
            self._flushes = True
            asyncio.get_running_loop().call_soon(self._flush, context=contextvars.Context())

    def _flush(self) -> None:
        """Begins to read what waits, as far as connections are idle."""
        self._flushes = False
        while self._idle and (self._waiting[False] or (self._waiting[True] and self._free_for_large)):
            reader = self._idle.pop()
            batch = self._take(reader)
            keys = list(batch)
            if tracing.is_on() or not reader.begin(keys, partial(self._finish, reader, batch, keys)):
                self._start_task(reader, batch, keys, attempts=2)

    def _take(self, reader: _Reader) -> _Batch:
        """Returns what the reader reads next: large ones first, which never have all connections."""
        is_large = bool(self._waiting[True] and self._free_for_large)
        reader.is_large = is_large
        self._free_for_large -= is_large
        waiting = self._waiting[is_large]
        if len(waiting) <= MAX_KEYS:
            self._waiting[is_large] = {}
            return waiting
        return {which: waiting.pop(which) for which in list(waiting)[:MAX_KEYS]}

    def _finish(
        self, reader: _Reader, batch: _Batch, keys: list[_Which], rows: _Records, error: Exception | None
    ) -> None:
        if error is None:
            self._answer(reader, batch, keys, rows)
        elif _is_worth_another(reader.connection, error):
            self._start_task(reader, batch, keys, attempts=1)
        else:
            self._fail(reader, batch, error)

    def _start_task(self, reader: _Reader, batch: _Batch, keys: list[_Which], attempts: int) -> None:
        # In a context of its own: it does not belong to the request that happens to start it.
        spans, self._spans = self._spans, []
        reading = self._read(reader, batch, keys, spans, attempts)
        task = asyncio.get_running_loop().create_task(reading, name="registry reader", context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(
        self, reader: _Reader, batch: _Batch, keys: list[_Which], spans: Sequence[Any], attempts: int
    ) -> None:
        try:
            with tracing.shared("point-read", spans):
                rows = await self._call(reader, keys, attempts)
        except Exception as error:
            self._fail(reader, batch, error)
        else:
            self._answer(reader, batch, keys, rows)

    async def _call(self, reader: _Reader, keys: list[_Which], attempts: int) -> _Records:
        """A cut connection is replaced, and the query retried."""
        while True:
            attempts -= 1
            connection = reader.connection
            if connection is None or connection.closed:
                connection = await self._database.connect_with_retry("reader", lookups_only=True)
                connection.call_limit_seconds = ANSWER_SECONDS
                reader.connection = connection
            try:
                return await connection.call(*_call(keys))
            except psycopg.Error as error:
                if not (attempts and _is_worth_another(connection, error)):
                    raise

    def _answer(self, reader: _Reader, batch: _Batch, keys: list[_Which], rows: _Records) -> None:
        """Has the connection read on, and answers the requests of the rows. The others of the batch, for which there
        was no room, are requested again, ahead of newer ones."""
        answers = _loaded(batch, keys, rows)
        for row in rows:
            if len(row[_BODY] or "") >= LARGE_BYTES:
                self._large.put(keys[row[0] - 1][0], True, _LARGE_SECONDS)
        if rows and len(rows) < len(keys):
            left: list[_Batch] = [{}, {}]
            for which in keys[rows[-1][0] :]:
                is_large = self._large.get(which[0]) is not None
                left[is_large][which] = batch.pop(which) + self._waiting[is_large].pop(which, [])
            self._waiting = [first | more for first, more in zip(left, self._waiting, strict=True)]
        self._release(reader)
        for askers, loaded in answers:
            for done in askers:
                _report(done, loaded, None)
        for done in chain.from_iterable(batch.values()):
            _report(done, None, TenantNotFound("the tenant does not exist"))

    def _fail(self, reader: _Reader, batch: _Batch, error: Exception) -> None:
        if isinstance(error, psycopg.Error):
            error = translate(error)
        elif not isinstance(error, StoreError):
            logger.error("a batch of reads failed unexpectedly", exc_info=error)
            error = Unavailable(f"unforeseen: {error}")
        self._release(reader)
        for done in chain.from_iterable(batch.values()):
            # Each gets its own exception: raising one adds to its traceback.
            _report(done, None, type(error)(str(error)))

    def _release(self, reader: _Reader) -> None:
        self._free_for_large += reader.is_large
        reader.is_large = False
        self._idle.append(reader)
        self._idled.set()
        self._flush()


def _call(keys: list[_Which]) -> tuple[Statement, dict[str, Value]]:
    parameters: dict[str, Value] = {
        "tenants": BigintArray([which[0] for which in keys]),
        "resources": TextArray([which[1] for which in keys]),
        "keys": TextArray([which[2] for which in keys]),
    }
    return (LOAD_ONE, parameters) if len(keys) == 1 else (LOAD, {**parameters, "bytes": READ_BYTES})


def _is_worth_another(connection: Connection | None, error: Exception) -> bool:
    """Whether a read that failed is repeated: the connection was cut, or its statements have been deallocated."""
    if isinstance(error, psycopg.errors.InvalidSqlStatementName):
        return True
    return connection is not None and connection.closed and isinstance(error, psycopg.Error) and is_transient(error)


def _loaded(batch: _Batch, keys: list[_Which], rows: _Records) -> list[tuple[list[Done], Loaded]]:
    """Takes the requests of the rows out of the batch; returns them with their answers."""
    answers: list[tuple[list[Done], Loaded]] = []
    for ordinal, now, definitions, namespaces, uid, revision, version, schema, body, *_ in rows:
        which = keys[ordinal - 1]
        row = None
        if revision is not None:
            row = Row(cast(ResourceName, which[1]), cast(ObjectKey, which[2]), uid, revision, version, schema, body)
        answers.append((batch.pop(which), (row, State(now, Guards(definitions, namespaces)))))
    return answers


def _report(done: Done, loaded: Loaded | None, error: StoreError | None) -> None:
    """A fault of one that waits does not concern the others."""
    try:
        done(loaded, error)
    except Exception:
        logger.exception("the answer to a read failed unexpectedly")


def _resolve(future: asyncio.Future[Loaded], loaded: Loaded | None, error: StoreError | None) -> None:
    if future.done():
        return
    if loaded is not None:
        future.set_result(loaded)
    else:
        assert error is not None
        future.set_exception(error)


def _storable(text: str) -> bool:
    if text.isascii():
        return "\x00" not in text
    try:
        return "\x00" not in text and bool(text.encode())
    except UnicodeEncodeError:
        return False
