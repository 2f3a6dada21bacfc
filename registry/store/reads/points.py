"""Batched point reads: reads issued in one iteration of the event loop, or while all connections are busy, are one
query.

Ten keys in a query cost the process a third of ten queries, fifty a seventh (docs: facts on PostgreSQL). Equal requests
share one result. Each result carries the tenant's state from the same snapshot as the row.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Any, Final, cast

import psycopg

from registry import tracing
from registry.store.arrays import BigintArray, TextArray
from registry.store.bounds import READ_BYTES, within_bytes
from registry.store.database import Database
from registry.store.errors import Closed, StoreError, TenantNotFound, Unavailable
from registry.store.exchange import Value
from registry.store.session import Connection
from registry.store.statements import statement
from registry.store.translate import is_transient, translate
from registry.store.types import Guards, ObjectKey, ResourceName, Row, State, Tenant, TenantId

logger = logging.getLogger(__name__)

# Larger batches gain little and delay the first caller.
MAX_KEYS: Final = 100

# The queue; at 15,000 reads a second this is more than a second's worth.
MAX_WAITING: Final = 20_000

# A batch of lookups takes milliseconds. After this time without a response the connection counts as frozen.
ANSWER_SECONDS: Final = 5.0

_LOAD: Final = """
    SELECT w.ordinal, d.revision, t.definitions_revision, t.namespaces_revision,
        o.uid, o.revision AS changed, o.version, o.schema_id, o.body
    FROM unnest(%(tenants)s::bigint[], %(resources)s::text[], %(keys)s::text[])
        WITH ORDINALITY AS w (tenant_id, resource, key, ordinal)
    JOIN tenants t ON t.id = w.tenant_id AND t.deleted_at IS NULL
    JOIN domains d ON d.id = t.domain_id
    LEFT JOIN objects o ON o.tenant_id = w.tenant_id AND o.resource = w.resource AND o.key = w.key
"""

LOAD_ONE: Final = statement("load", "An object by its key, with the state of its tenant; by the primary keys.", _LOAD)

LOAD: Final = statement(
    "load-some",
    "Objects by their keys, with the states of their tenants, the first up to some bytes; by the primary keys of"
    " tenants, domains and objects.",
    within_bytes(_LOAD, "r.ordinal", "coalesce(octet_length(r.body), 0)"),
)

Loaded = tuple[Row | None, State]
_Which = tuple[TenantId, str, str]
_Batch = dict[_Which, list[asyncio.Future[Loaded]]]


class PointReader:
    def __init__(self, database: Database, *, connections: int = 2) -> None:
        self._database = database
        self._connections = connections
        self._waiting: _Batch = {}
        # The tracing spans of waiting requests, if tracing is on.
        self._spans: list[Any] = []
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False

    async def load(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> Loaded:
        """Returns the current object, or None, and the tenant's state in the same snapshot. Raises TenantNotFound,
        Unavailable."""
        if not (_storable(resource) and _storable(key)):
            # What PostgreSQL cannot store does not exist.
            return None, await self.state(tenant)
        return await self._ask((tenant.id, resource, key))

    def begin(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> asyncio.Future[Loaded]:
        """Like `load`, for ASCII. Raises Closed and Unavailable if there is no use in waiting."""
        return self._ask((tenant.id, resource, key))

    async def state(self, tenant: Tenant) -> State:
        # No object has an empty key.
        return (await self._ask((tenant.id, "", "")))[1]

    async def close(self) -> None:
        self._closing = True
        self._wake.set()
        await asyncio.gather(*self._tasks)

    def _ask(self, which: _Which) -> asyncio.Future[Loaded]:
        if self._closing:
            raise Closed("the store is closed")
        self._database.require()
        if len(self._waiting) >= MAX_WAITING:
            raise Unavailable("too many reads wait")
        if not self._tasks:
            # In their own context: the tasks do not belong to the request that happens to start them.
            self._tasks = [
                asyncio.create_task(self._run(), name="registry reader", context=contextvars.Context())
                for _ in range(self._connections)
            ]
        if tracing.is_on():
            self._spans.append(tracing.current())
        future: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
        askers = self._waiting.get(which)
        if askers is None:
            self._waiting[which] = [future]
        else:
            askers.append(future)
        self._wake.set()
        return future

    async def _run(self) -> None:
        connection: Connection | None = None
        while not (self._closing and not self._waiting):
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            batch = self._take()
            spans, self._spans = self._spans, []
            try:
                with tracing.shared("point-read", spans):
                    connection = await self._answer(connection, batch)
            except Exception as error:
                if not isinstance(error, StoreError):
                    logger.exception("a batch of reads failed unexpectedly")
                    error = Unavailable(f"unforeseen: {error}")
                _fail(batch, error)
        if connection is not None:
            await connection.close()

    def _take(self) -> _Batch:
        if len(self._waiting) <= MAX_KEYS:
            batch, self._waiting = self._waiting, {}
        else:
            first = list(self._waiting)[:MAX_KEYS]
            batch = {which: self._waiting.pop(which) for which in first}
        return batch

    async def _answer(self, connection: Connection | None, batch: _Batch) -> Connection | None:
        """Resolves the batch; returns the connection to continue with. A cut connection is replaced, and the query
        retried."""
        keys = list(batch)
        rows: list[tuple[Any, ...]] = []
        for attempt in (1, 2):
            if connection is None or connection.closed:
                connection = await self._database.connect_with_retry("reader", lookups_only=True)
                connection.call_limit_seconds = ANSWER_SECONDS
            try:
                rows = await _query(connection, keys)
                break
            except psycopg.Error as error:
                if attempt == 2 or not (connection.closed and is_transient(error)):
                    _fail(batch, translate(error))
                    return connection
        # What did not fit is requested again, ahead of newer requests.
        left = _resolve(batch, keys, rows)
        for which, askers in left.items():
            askers += self._waiting.pop(which, ())
        self._waiting = left | self._waiting
        return connection


async def _query(connection: Connection, keys: list[_Which]) -> list[tuple[Any, ...]]:
    parameters: dict[str, Value] = {
        "tenants": BigintArray([which[0] for which in keys]),
        "resources": TextArray([which[1] for which in keys]),
        "keys": TextArray([which[2] for which in keys]),
    }
    if len(keys) == 1:
        return await connection.call(LOAD_ONE, parameters)
    return await connection.call(LOAD, {**parameters, "bytes": READ_BYTES})


def _resolve(batch: _Batch, keys: list[_Which], rows: list[tuple[Any, ...]]) -> _Batch:
    """Resolves the futures of the rows; returns the requests after the last row, for which there was no room."""
    left: _Batch = {}
    if rows and len(rows) < len(keys):
        left = {which: batch.pop(which) for which in keys[rows[-1][0] :]}
    for ordinal, now, definitions, namespaces, uid, revision, version, schema, body, *_ in rows:
        which = keys[ordinal - 1]
        state = State(now, Guards(definitions, namespaces))
        row = None
        if revision is not None:
            row = Row(cast(ResourceName, which[1]), cast(ObjectKey, which[2]), uid, revision, version, schema, body)
        answer = (row, state)
        for future in batch.pop(which):
            if not future.done():
                future.set_result(answer)
    _fail(batch, TenantNotFound("the tenant does not exist"))
    return left


def _storable(text: str) -> bool:
    if text.isascii():
        return "\x00" not in text
    try:
        return "\x00" not in text and bool(text.encode())
    except UnicodeEncodeError:
        return False


def _fail(batch: _Batch, error: StoreError) -> None:
    for askers in batch.values():
        for future in askers:
            if not future.done():
                # Each gets its own exception: raising one adds to its traceback.
                future.set_exception(type(error)(str(error)))
