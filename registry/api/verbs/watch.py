"""Watch: the changes of the objects of a selection, from a revision on, in commit order.

A watch is a list (if it begins with the present state) and then the change log from exactly the revision of that list.
An object that leaves the selection is DELETED with its old content, one that enters it is ADDED. `watch_source` serves
watches of one tenant (TenantSource) and of several (registry/api/wildcard/requests.py).

Follows apiserver pkg/endpoints/handlers/get.go, pkg/storage/cacher and pkg/storage/etcd3/watcher.go.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from sys import getsizeof
from typing import Generic, NamedTuple, Protocol, TypeVar

from registry.api.answers import Event, WatchAnswer
from registry.api.definition_changes import FollowedDefinition
from registry.api.errors import StatusError, expired, too_large
from registry.api.freshness import wait_until
from registry.api.list_options import ListOptions, list_options
from registry.api.options import requested_revision
from registry.api.query.listing import matching
from registry.api.query.parsing import is_query, of_state, parse_query
from registry.api.request import CatalogStale, ResourceRequest
from registry.api.tables.table import INITIAL_EVENTS_END
from registry.api.verbs.event_filter import EventFilter
from registry.api.verbs.readable import row_texts
from registry.api.verbs.selection import select, selectors_size
from registry.budget import BudgetExceeded
from registry.codec.json_encode import encode_json_text
from registry.flowcontrol.byte_shares import HELD_TIMES, HeldAnswer
from registry.flowcontrol.evaluation import evaluate
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.flowcontrol.watchdog import EvaluationStopped
from registry.store.errors import Closed, RevisionExpired, StoreError, Unavailable
from registry.store.feed.subscription import Subscription
from registry.store.types import Batch, Change, ResourceName, Row, State

# Clients reconnect after 70 seconds of silence (kopf), and kube-apiserver sends a bookmark a minute.
BOOKMARK_SECONDS = 50.0
# Before its end a quiet watch sends a bookmark, so that its client resumes from there (pkg/storage/cacher).
FAREWELL_SECONDS = 2.0
# A watch without timeoutSeconds lasts between this and twice this, so that not all clients return at once
# (handlers/get.go, minRequestTimeout).
MIN_WATCH_SECONDS = 1800
# The interval at which a watch tries to read while PostgreSQL is away.
RETRY_SECONDS = 0.5

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class PageOf(Protocol[R_co]):
    """Rows at one revision."""

    @property
    def rows(self) -> Sequence[R_co]: ...

    @property
    def revision(self) -> int: ...

    @property
    def more(self) -> bool:
        """Whether another page may follow."""


class WatchSource(Protocol[R]):
    """Provides the state and the changes of a watch. Rows have any form that `texts` accepts."""

    request: ResourceRequest
    # The longest time between two calls of `refresh`.
    refresh_seconds: float
    # Whether a change of the request's definition ends the watch before the next event.
    follows_definition: bool

    async def wait(self, revision: int) -> State | None:
        """Waits until `revision` has been reached. Raises 504 if that takes too long. Returns the state of the
        request's tenant if it was read for that."""

    async def revision(self) -> int:
        """Returns the newest revision."""

    def pages(self) -> AsyncGenerator[PageOf[R], None]:
        """Yields the present state at the revision of the first page, in at least one page."""

    async def texts(self, rows: Sequence[R]) -> Sequence[str]:
        """Returns the objects of rows as JSON."""

    async def refresh(self) -> None:
        """Refreshes what the watch may see. Raises StatusError if it cannot go on."""

    async def subscribe(self, revision: int) -> Subscription: ...

    async def follow(self, wake: Callable[[], None], revision: int) -> FollowedDefinition:
        """Wakes the watch, which begins at `revision`, when its definition changes."""

    async def events(self, changes: Sequence[Change]) -> Sequence[Event]: ...


async def watch(request: ResourceRequest) -> WatchAnswer:
    options = list_options(request.query)
    options = replace(options, watch=True, of_watch_path=not options.watch)
    source = partial(TenantSource, request, options)
    return await watch_source(await evaluate(source, selectors_size(options), repeatable=True), options)


class TenantSource:
    """The objects that a selection selects in one tenant."""

    refresh_seconds = math.inf
    follows_definition = True

    def __init__(self, request: ResourceRequest, options: ListOptions) -> None:
        """Raises SelectorError. Selectors may be long: callers evaluate it."""
        self.request = request
        self._selection = replace(select(request, options), from_memory=True)
        self._options = options
        self._filter = EventFilter(self._selection)

    async def wait(self, revision: int) -> State:
        return await wait_until(revision, self._state)

    async def revision(self) -> int:
        return (await self._state()).revision

    async def _state(self) -> State:
        return await self.request.backend.store.state(self.request.tenant)

    def pages(self) -> AsyncGenerator[PageOf[Row], None]:
        if is_query(self.request, self._options):
            return matching(parse_query(self.request, of_state(self._options)))
        return self._selection.pages()

    async def texts(self, rows: Sequence[Row]) -> Sequence[str]:
        return await row_texts(self.request, rows)

    async def refresh(self) -> None:
        pass

    async def subscribe(self, revision: int) -> Subscription:
        request = self.request
        return await request.backend.store.subscribe(request.tenant, request.served.resource_name, revision)

    async def follow(self, wake: Callable[[], None], revision: int) -> FollowedDefinition:
        return await follow(self.request, wake, known_at=revision)

    async def events(self, changes: Sequence[Change]) -> Sequence[Event]:
        return await self._filter.events(changes)


async def watch_source(source: WatchSource[R], options: ListOptions) -> WatchAnswer:
    """Starts a watch. Raises errors of the selectors and the start; later errors become ERROR events."""
    revision = start_of(options)
    state = await source.wait(revision) if revision > 0 else None
    # Read here, so that a request evaluated under old definitions is served again instead of ending at once.
    beginning: Beginning[R] | None = None
    if begins_with_state(options, revision):
        selection = (options.label_selector, options.field_selector, options.filter)
        await source.request.wait_for_room("watch", hash(selection))
        pages = source.pages()
        beginning = Beginning(await anext(pages), pages)
    else:
        revision = revision or await source.revision()
        if source.follows_definition:
            source.request.check_fresh(state or await source.request.backend.store.state(source.request.tenant))
    return WatchAnswer(source.request.served, WatchEvents(source, options, revision, beginning))


class Beginning(NamedTuple, Generic[R]):
    """The state with which a watch begins."""

    first: PageOf[R]
    others: AsyncGenerator[PageOf[R], None]


def begins_with_state(options: ListOptions, revision: int) -> bool:
    """Whether the watch begins with the present state: if requested, or if no revision is given."""
    wanted = options.send_initial_events
    return revision == 0 if wanted is None else wanted


def _tells_end_of_state(options: ListOptions) -> bool:
    """Whether sendInitialEvents is true, or added by upstream's defaults.go, which it is not on the old path."""
    return not options.of_watch_path and (bool(options.send_initial_events) or options.is_of_any_revision)


def start_of(options: ListOptions) -> int:
    """Returns the revision to continue from; 0 begins with the present state."""
    return requested_revision(options.resource_version) if options.resource_version else 0


class WatchEvents(Generic[R]):
    """The events of a watch, in batches, until it ends. Errors become ERROR events.

    Thousands of watches wait most of the time: in one coroutine each, for asynchronous generators within one another
    would take 2 kB more.
    """

    __slots__ = (
        "_batch", "_bookmark_at", "_deadline", "_ended_at", "_farewell_at", "_followed", "_has_begun", "_has_read",
        "_is_over", "_loop", "_options", "_position", "_quiet_since", "_revision", "_schemas", "_source", "_state",
        "_subscription",
    )  # fmt: skip

    def __init__(
        self, source: WatchSource[R], options: ListOptions, revision: int, beginning: Beginning[R] | None
    ) -> None:
        seconds = options.timeout_seconds or random.uniform(MIN_WATCH_SECONDS, 2 * MIN_WATCH_SECONDS)
        # Kept, since asyncio.get_running_loop() is a system call up to Python 3.11.
        self._loop = asyncio.get_running_loop()
        self._source = source
        self._options = options
        self._revision = revision
        self._deadline = self._loop.time() + seconds
        # The events of the present state, until they have been read.
        self._state = self._initial(beginning) if beginning is not None else None
        self._subscription: Subscription | None = None
        self._followed: FollowedDefinition | None = None
        # The schemas of the changes so far; none of them is newer than this watch's.
        self._schemas = {source.request.served.identity}
        self._has_begun = self._has_read = self._is_over = False
        # What has been read and has not become events yet.
        self._batch: Batch | None = None
        # The times of the last event, of the next bookmark, and of that before the end.
        self._quiet_since = self._bookmark_at = self._farewell_at = 0.0
        # At the last read: where the subscription was, and from which revision on the definition was another one.
        self._position = 0
        self._ended_at: int | None = None

    def __aiter__(self) -> WatchEvents[R]:
        return self

    async def __anext__(self) -> Sequence[Event]:
        last: Event | None = None
        try:
            if self._state is not None:
                if (events := await anext(self._state, None)) is not None:
                    return events
                self._state = None
            if (answer := HeldAnswer.current()) is not None:
                answer.hold(0)
            self._quiet_since = self._loop.time()
            # At least one batch: a client of short watches progresses even if starting one has taken all its time.
            while not self._is_over and (self._deadline > self._loop.time() or not self._has_read):
                # What fails because PostgreSQL is away is repeated up to the end of the watch, which stands still and
                # then goes on. If it ended, its client would get 503 for the next one: kubectl exits.
                try:
                    if not self._has_begun:
                        await self._begin()
                    assert self._subscription is not None, "it has begun"
                    if self._batch is None:
                        self._batch = await self._subscription.next_batch(self._wait_seconds())
                        self._has_read = True
                    if events := await self._take_batch():
                        return events
                    continue
                except Closed:
                    raise
                except Unavailable:
                    if self._loop.time() >= self._deadline:
                        raise
                await asyncio.sleep(RETRY_SECONDS)
        except StatusError as error:
            last = error_event(error)  # a webhook failed, or a tenant is gone
        except BudgetExceeded as error:
            last = error_event(too_large(str(error)))
        except RevisionExpired as error:
            last = error_event(expired(f"too old resource version: {error.revision} ({error.compact_revision})"))
        except (CatalogStale, StoreError, EvaluationStopped, TooManyRequests):
            pass  # the client resumes from the last revision that it has seen
        self._end()
        if last is None:
            raise StopAsyncIteration
        return [last]

    async def aclose(self) -> None:
        if self._state is not None:
            await self._state.aclose()
        self._end()

    def _end(self) -> None:
        self._is_over = True
        if self._followed is not None:
            self._followed.close()
        if self._subscription is not None:
            self._subscription.close()

    async def _initial(self, beginning: Beginning[R]) -> AsyncGenerator[Sequence[Event], None]:
        """Yields the present state, at whose revision the watch continues."""
        answer, options = HeldAnswer.current(), self._options
        page: PageOf[R] | None
        page, others = beginning
        del beginning
        self._revision = page.revision
        async with aclosing(others):
            while page is not None:
                state = [Event("ADDED", text) for text in await self._source.texts(page.rows)] if page.rows else []
                if answer is not None:
                    await answer.hold_page(_held_bytes(state), more=page.more)
                if state:
                    yield state
                del state  # the next page may take long
                page = await anext(others, None)
        if answer is not None:
            answer.hold(0)
        if options.allow_watch_bookmarks and _tells_end_of_state(options):
            yield [bookmark(self._source.request, self._revision, ends_initial_events=True)]

    async def _begin(self) -> None:
        source, served = self._source, self._source.request.served
        farewell_at = self._deadline - FAREWELL_SECONDS
        self._farewell_at = farewell_at if farewell_at > self._loop.time() else math.inf
        await source.refresh()
        if self._subscription is None:
            self._subscription = await source.subscribe(self._revision)
        if source.follows_definition and not served.definition.builtin:
            self._followed = await source.follow(self._subscription.wake, self._revision)
        self._has_begun = True

    def _wait_seconds(self) -> float:
        """Returns how long to wait for changes at most, with what has to be known of the time before."""
        assert self._subscription is not None, "it has begun"
        self._position = self._subscription.position
        self._bookmark_at = min(self._quiet_since + BOOKMARK_SECONDS, self._farewell_at)
        self._ended_at = self._followed.ended_at if self._followed is not None else None
        if self._ended_at is not None:
            return 0.0
        return max(0.0, min(min(self._deadline, self._bookmark_at) - self._loop.time(), self._source.refresh_seconds))

    async def _take_batch(self) -> Sequence[Event]:
        """Returns the events of what has been read, or a bookmark; perhaps nothing."""
        source, request, ended_at = self._source, self._source.request, self._ended_at
        # After the read, so at least as new as the batch: changes go to those who may see their revision.
        await source.refresh()
        batch = self._batch
        assert batch is not None, "it has been read"
        changes = batch.changes
        if ended_at is not None:
            changes = tuple([change for change in changes if change.revision < ended_at])
        if not self._schemas.issuperset([change.schema for change in changes]):
            if source.follows_definition and await is_superseded(request):
                self._is_over = True  # the client resumes, and sees these changes under the new definition
                return ()
            self._schemas.update([change.schema for change in changes])
        events = await source.events(changes)
        needed_bytes = _held_bytes(events)
        answer = HeldAnswer.current()
        if answer is not None and not answer.try_hold(needed_bytes):
            assert self._subscription is not None, "it has begun"
            self._subscription.give_back(batch, self._position)
            self._batch = None
            del batch, changes, events  # nothing is held while it waits: they are read again
            await answer.wait_to_hold(needed_bytes)
            return ()
        if not events and self._loop.time() >= self._bookmark_at:
            if await _is_known_superseded(request):
                self._is_over = True  # this definition may have no more events
                return ()
            if self._options.allow_watch_bookmarks:
                events = [bookmark(request, batch.revision)]
            self._quiet_since = self._loop.time()
            self._farewell_at = self._farewell_at if self._farewell_at > self._quiet_since else math.inf
        self._batch = None  # a watch does not hold on to what it has sent
        self._is_over = ended_at is not None
        return events


def _held_bytes(events: Sequence[Event]) -> int:
    """Returns what the watch holds of the events until its client has read them."""
    return HELD_TIMES * sum([getsizeof(event.text) for event in events])


async def follow(request: ResourceRequest, wake: Callable[[], None], known_at: int | None) -> FollowedDefinition:
    """Calls `wake` when the definition of the request changes; it was the present one at `known_at`, or later."""
    definition = request.served.definition
    is_bound = ResourceName(definition.name) in request.catalog.bound
    changes = request.backend.catalogs.changes
    return await changes.follow(request.tenant, definition, is_bound=is_bound, wake=wake, known_at=known_at)


async def is_superseded(request: ResourceRequest) -> bool:
    """Whether the definition has changed its schema since the watch began, or is no longer served."""
    served = request.served
    catalog = await request.backend.catalogs.current(request.tenant)
    newer = catalog.served(served.definition.group, served.version.name, served.definition.names.plural)
    return newer is None or newer.identity != served.identity


async def _is_known_superseded(request: ResourceRequest) -> bool:
    """`is_superseded`, and False while PostgreSQL is away: clients need the bookmark, which is true nevertheless."""
    try:
        return await is_superseded(request)
    except Closed:
        raise
    except Unavailable:
        return False


def bookmark(request: ResourceRequest, revision: int, *, ends_initial_events: bool = False) -> Event:
    served = request.served
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if ends_initial_events:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    obj = {"kind": served.kind.name, "apiVersion": served.api_version, "metadata": metadata, **served.strategy.zeros}
    return Event("BOOKMARK", encode_json_text(obj))


def error_event(error: StatusError) -> Event:
    return Event("ERROR", encode_json_text(error.status()))
