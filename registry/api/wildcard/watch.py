"""Watches over several tenants: the changes of their revision domain, of those that may be seen at each revision."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from registry.api.answers import Event, WatchAnswer
from registry.api.errors import StatusError, expired
from registry.api.options import ListOptions
from registry.api.request import CatalogStale
from registry.api.served import Served
from registry.api.verbs.watch import (
    BOOKMARK_SECONDS,
    MIN_WATCH_SECONDS,
    EventFilter,
    begins_with_state,
    bookmark,
    error_event,
    is_superseded,
    start_of,
)
from registry.api.wildcard.view import View, annotate, wait
from registry.authorization.wildcard import SUBRESOURCE
from registry.store.errors import RevisionExpired, StoreError
from registry.store.reads.wildcard import START, AcrossPage
from registry.store.sharing import Span
from registry.store.types import Change, TenantId

# How often a watch looks whether a tenant has been removed: its objects go without events.
_LOOK_SECONDS: Final = 5.0
_TENANT_GONE: Final = "a tenant has been removed with all its objects: list again"


async def watch(view: View) -> WatchAnswer:
    view.options = options = replace(view.options, watch=True)
    revision = start_of(options)
    await wait(view, revision)
    page = await view.page(None, START, 0) if begins_with_state(options, revision) else None
    return WatchAnswer(view.request.served, _events(view, options, revision, page))


async def _events(
    view: View, options: ListOptions, revision: int, page: AcrossPage | None
) -> AsyncGenerator[Sequence[Event], None]:
    request = view.request
    seconds = options.timeout_seconds or random.uniform(MIN_WATCH_SECONDS, 2 * MIN_WATCH_SECONDS)
    deadline = asyncio.get_running_loop().time() + seconds
    try:
        if page is not None:
            revision = page.revision
            while True:
                if page.rows:
                    yield [Event("ADDED", text) for text in await view.texts(page.rows)]
                if not page.more or not page.rows:
                    break
                page = await view.page(revision, page.rows[-1].place, 0)
            page = None  # a watch lives long, its beginning need not
            if options.allow_watch_bookmarks:
                yield [bookmark(request, revision, ends_initial_events=True)]
        elif revision == 0:
            revision = (await view.page(None, START, 1)).revision
        async with aclosing(_live(view, options, revision, deadline)) as live:
            while (events := await anext(live, None)) is not None:
                yield events
                del events  # the next may be long in coming
    except StatusError as error:
        yield [error_event(error)]
    except RevisionExpired as error:
        yield [error_event(expired(f"too old resource version: {error.revision} ({error.compact_revision})"))]
    except (CatalogStale, StoreError):
        return  # the client resumes from the last revision that it has seen


async def _live(
    view: View, options: ListOptions, revision: int, deadline: float
) -> AsyncGenerator[Sequence[Event], None]:
    request = view.request
    now = asyncio.get_running_loop().time
    quiet_since = now()
    eyes = TenantVisibility(view)
    await eyes.look()
    schemas = {request.served.identity}
    subscription = await request.backend.store.subscribe_across(
        view.across.domain, request.served.resource_name, revision
    )
    try:
        while (left := deadline - now()) > 0:
            silence = quiet_since + BOOKMARK_SECONDS - now()
            batch = await subscription.next_batch(max(0.0, min(left, silence, _LOOK_SECONDS)))
            # As of now, and so of no earlier than what was read: a change is seen by who had bound at its revision.
            await eyes.look()
            if not schemas.issuperset([change.schema for change in batch.changes]):
                schemas.update([change.schema for change in batch.changes])
                if view.across.provider is not None and await is_superseded(request):
                    return  # the client resumes, and is shown these changes by the new definition
            events = await eyes.events(batch.changes)
            if events:
                yield events
                quiet_since = now()
            elif now() >= quiet_since + BOOKMARK_SECONDS:
                if await is_superseded(request):
                    return
                if options.allow_watch_bookmarks:
                    yield [bookmark(request, batch.revision)]
                quiet_since = now()
            del batch, events  # what a watch has sent is not its to keep until there is more
    finally:
        subscription.close()


class TenantVisibility:
    """What a watch over several tenants sees of the domain's changes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._spans: Mapping[TenantId, Sequence[Span]] = {}
        self._sights: dict[int, EventFilter] = {}

    async def look(self) -> None:
        """Which tenants may be seen. Raises a StatusError 410 where one has gone that could be."""
        found: dict[TenantId, list[Span]] = {}
        for span in await self._view.spans():
            found.setdefault(span.tenant.id, []).append(span)
        if any(tenant not in found for tenant, spans in self._spans.items() if any(s.until is None for s in spans)):
            raise expired(_TENANT_GONE)
        self._spans = found

    async def events(self, changes: Sequence[Change]) -> list[Event]:
        found = []
        for change in changes:
            span = next((s for s in self._spans.get(change.tenant, ()) if s.covers(change.revision)), None)
            if span is None:
                continue
            served = await self._view.served(span.tenant)
            if served is None:
                continue
            sight = self._sights.get(id(served))
            if sight is None:
                sight = self._sights[id(served)] = EventFilter(
                    replace(self._view.selection, request=replace(self._view.request, served=served))
                )
            await sight.convert((change,))
            event = sight.event(change)
            if event is not None:
                found.append(_annotated_event(event, served, span.tenant.name))
        return found


def _annotated_event(event: Event, served: Served, tenant: str) -> Event:
    """The same text for all who watch over several tenants: kept with the change."""
    cache = event.cache
    assert cache is not None, "an event of a change has its cache"
    key = (SUBRESOURCE, *event.text_key)
    text = cache.get(key)
    if text is None:
        text = cache[key] = annotate(event.text, served, tenant)
    return Event(event.type, text, cache, key)
