"""Retries: every reason to serve a request again, and when to give up.

    reason                    found by                        the next attempt has             at most
    definitions changed       reads and commits               a newer catalog and resource     for 30 seconds
    definitions not read yet  the catalog of a first reading  all definitions                  once
    refused by old policies   the guards after a refusal      the same                         once
    conversion not ready      reading or making an object     the conversion, the same row     200 a request
    handed-over row is old    its commit, or anything else    the row that is stored           once
    revision conflict         the commit                      the row that is stored           CONFLICT_TRIES
    generated name taken      the commit                      another name                     GENERATED_NAME_TRIES
    no object to change       the read                        the operation that creates it    once
    evaluation too long       the watchdog                    a thread beside the event loop   once

The first three and the last concern a whole request (`run_current`), the others a write of one object (`run`). Each
attempt has a fork of the request's context, which is adopted when the attempt is final, in success or failure, so
nothing has to be undone. What must not differ between attempts, or not be done twice, is in the RetryMemo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Final, Generic, TypeVar

from registry.api.catalog import TenantCatalog
from registry.api.conversions import ConversionNeeded
from registry.api.errors import StatusError, not_found
from registry.api.first_reading import CatalogIncomplete
from registry.api.object_locks import ObjectLock
from registry.api.request import Backend, CatalogStale, ResourceRequest
from registry.api.retry_memo import RetryMemo
from registry.api.strategies.base import Context
from registry.api.verbs.pipeline import HandoverUnconfirmed, Operation, Start, attempt
from registry.flowcontrol.evaluation import COUNTED_BYTES, Large, begins_again, load_large, note_size
from registry.flowcontrol.watchdog import EvaluationStopped
from registry.store.errors import AlreadyExists, GuardsChanged, NotFound, RevisionConflict, StoreError
from registry.store.types import Guards

A = TypeVar("A")

# How long a request is retried, each time because its definitions have changed meanwhile. A script that applies a
# hundred policies changes them as fast as a request is served, so the request succeeds only when the script is done.
DEFINITIONS_SECONDS: Final = 30.0
# Refusals that can follow from a tenant's definitions and policies: policies choose 403, 413 or 422, and a mutation
# whose result is not an object of its kind is a 500.
_REFUSALS: Final = frozenset({400, 403, 413, 422, 500})
# Failures that an outdated handed-over row can cause.
_OLD_ROW: Final = (StatusError, RevisionConflict, NotFound, GuardsChanged, HandoverUnconfirmed)


class NoLongerServed(Exception):
    """The definitions have changed, and the resource is no longer served."""


class DefinitionsUnstable(StatusError):
    """The definitions have changed faster than the request could be served."""

    def __init__(self) -> None:
        why = "the definitions of the tenant change faster than this request could be evaluated by them"
        super().__init__(503, "ServiceUnavailable", why, {"retryAfterSeconds": 1}, 1)


async def run_current(
    backend: Backend,
    catalog: TenantCatalog,
    context: Context,
    address: Callable[[TenantCatalog, Context], ResourceRequest | None],
    serve: Callable[[ResourceRequest], Awaitable[A]],
) -> A:
    """Returns what `serve` answers under definitions and policies that are current when it answers.

    `address` builds the request for one attempt from a catalog; it returns None if the catalog has no such resource.
    Raises NoLongerServed, or DefinitionsUnstable after DEFINITIONS_SECONDS.
    """
    memo = RetryMemo()
    # Whether the catalog was read after the request arrived: its refusals are then final.
    current = False
    clock = asyncio.get_running_loop().time
    deadline = clock() + DEFINITIONS_SECONDS
    while True:
        forked = context.fork(memo)
        request = address(catalog, forked)
        if request is None:
            raise NoLongerServed
        try:
            answer = await serve(request)
        except CatalogStale as stale:
            guards = stale.guards
        except CatalogIncomplete:
            catalog = await backend.catalogs.get(context.tenant)
            continue
        except EvaluationStopped:
            if not begins_again():
                raise
            continue
        except Exception as failure:
            newer = None if current else await _newer_guards(request, failure)
            if newer is None:
                context.adopt(forked)
                raise
            guards = newer
        else:
            context.adopt(forked)
            return answer
        if clock() >= deadline:
            raise DefinitionsUnstable
        catalog = await backend.catalogs.fresh(context.tenant, guards)
        current = True


async def _newer_guards(request: ResourceRequest, failure: Exception) -> Guards | None:
    """Returns the tenant's guards if a refusal followed from outdated definitions or policies, or if the namespace may
    be terminating by now, which is refused before all else; otherwise None.

    A write that is accepted is checked by its commit; one that is refused is checked only here.
    """
    if not isinstance(failure, StatusError) or failure.code not in _REFUSALS:
        return None
    try:
        guards = (await request.backend.store.state(request.tenant)).guards
    except StoreError:
        return None
    known = request.catalog.guards
    is_old = guards.definitions != known.definitions or (request.namespace and guards.namespaces != known.namespaces)
    return guards if is_old else None


async def run(request: ResourceRequest, operation: Operation[A]) -> A:
    """Makes the write, in as many attempts as needed, and answers it. Raises StatusError or CatalogStale."""
    if not operation.is_serialized:
        return await _Run(request, operation).answer(None)
    async with request.backend.locks.lock(request.identity) as lock:
        return await _Run(request, operation).answer(lock)


class _Run(Generic[A]):
    """The attempts of one write."""

    def __init__(self, request: ResourceRequest, operation: Operation[A]) -> None:
        self._request = request
        self._operation = operation
        self._tries = operation.tries
        # Whether it has its place among the tenant's writes of large rows.
        self._is_large = False

    async def answer(self, lock: ObjectLock | None) -> A:
        context = self._request.context
        start = self._handed_over(lock) if lock is not None else None
        with ExitStack() as held:
            while True:
                request = self._request.fork()
                try:
                    start = await self._start(request, start, held)
                    outcome = await attempt(request, self._operation, start)
                    break
                except Exception as failure:
                    try:
                        start = await self._start_after(failure, start)
                    except Exception:
                        context.adopt(request.context)
                        raise
        context.adopt(request.context)
        if lock is not None and outcome.row is not None and outcome.guards is not None:
            lock.hand_over(outcome.row, outcome.guards)
        return await self._operation.answer(self._request, outcome)

    async def _start(self, request: ResourceRequest, start: Start | None, held: ExitStack) -> Start:
        """Returns what the attempt starts from. Few of a tenant's large rows are decoded at once: webhooks may keep
        them for half a minute."""
        operation = self._operation

        async def load() -> Start:
            loaded = start or await operation.load(request)
            note_size(_size(loaded))
            return loaded

        if self._is_large:
            return await load()
        loaded = await load_large(Large.ROW, load, _size, held)
        self._is_large = _size(loaded) > COUNTED_BYTES
        return loaded

    def _handed_over(self, lock: ObjectLock) -> Start | None:
        """Returns the row that this process wrote last, if the write can start from it; otherwise None.

        A write that calls webhooks cannot: they see it before it is committed, so it starts from the newest row.
        """
        catalog = self._request.catalog
        if self._operation.dry_run or (catalog.admission is not None and catalog.admission.calls_webhooks):
            return None
        written = lock.take()
        if written is None or written[1].definitions != catalog.guards.definitions:
            return None
        return Start(*written, handed_over=True)

    async def _start_after(self, failure: Exception, start: Start | None) -> Start | None:
        """Returns what the next attempt starts from; None to load what is stored. Raises the failure if it is final."""
        request, operation = self._request, self._operation
        if isinstance(failure, ConversionNeeded):
            assert request.served.conversions is not None
            await request.served.conversions.convert(failure)
            return start
        if start is not None and start.handed_over and isinstance(failure, _OLD_ROW):
            return None
        match failure:
            case RevisionConflict() | AlreadyExists():
                self._tries -= 1
                if not self._tries:
                    raise operation.race_lost(request, failure) from failure
                if request.context.memo is not None:
                    request.context.memo.name = ""
                return None
            case GuardsChanged():
                raise CatalogStale(failure.guards) from failure
            case NotFound():
                failure = not_found(request.served.resource, request.name)
        if isinstance(failure, StatusError) and (failure.code, failure.reason) == (404, "NotFound"):
            instead = operation.when_missing()
            if instead is not None:
                self._operation, self._tries = instead, instead.tries
                return None
        try:
            raise failure
        finally:
            del failure  # it refers to this frame


def _size(start: Start) -> int:
    return len(start.row.body) if start.row is not None else 0
