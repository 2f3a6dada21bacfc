"""Watches over several tenants: the changes of their revision domain that are visible at each revision."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from registry.api.answers import Event, WatchAnswer
from registry.api.errors import expired
from registry.api.event_forms import EVENT_FORMS
from registry.api.served import Served
from registry.api.verbs.event_filter import EventFilter
from registry.api.verbs.watch import watch_source
from registry.api.wildcard.view import WildcardView, annotate, wait
from registry.authorization.tenants import SUBRESOURCE
from registry.flowcontrol.evaluation import evaluate
from registry.store.feed.subscription import Subscription
from registry.store.reads.wildcard import START, WildcardPage, WildcardRow
from registry.store.sharing import BindingSpan
from registry.store.types import Change, TenantId

# How often a watch checks whether a tenant has been removed, whose objects go without events.
_REFRESH_SECONDS: Final = 5.0
_TENANT_GONE: Final = "a tenant has been removed with all its objects: list again"


async def watch(view: WildcardView) -> WatchAnswer:
    return await watch_source(WildcardSource(view), replace(view.options, watch=True))


class WildcardSource:
    """The state of several tenants, and the changes of their domain, for one request."""

    refresh_seconds = _REFRESH_SECONDS

    def __init__(self, view: WildcardView) -> None:
        self.request = view.request
        self.follows_definition = view.scope.provider is not None
        self._view = view
        self._spans: Mapping[TenantId, Sequence[BindingSpan]] = {}
        self._filters: dict[int, EventFilter] = {}

    async def wait(self, revision: int) -> None:
        await wait(self._view, revision)

    async def revision(self) -> int:
        return (await self._view.page(None, START, 1)).revision

    def pages(self) -> AsyncGenerator[WildcardPage, None]:
        return self._view.pages()

    async def texts(self, rows: Sequence[WildcardRow]) -> Sequence[str]:
        return await self._view.texts(rows)

    async def subscribe(self, revision: int) -> Subscription:
        store, resource = self.request.backend.store, self.request.served.resource_name
        return await store.subscribe_wildcard(self._view.scope.domain, resource, revision)

    async def refresh(self) -> None:
        """Refreshes which tenants may be seen. Raises a StatusError 410 if one of them is gone."""
        spans_now: dict[TenantId, list[BindingSpan]] = {}
        for span in await self._view.spans():
            spans_now.setdefault(span.tenant.id, []).append(span)
        if any(tenant not in spans_now for tenant, spans in self._spans.items() if any(s.until is None for s in spans)):
            raise expired(_TENANT_GONE)
        self._spans = spans_now

    async def events(self, changes: Sequence[Change]) -> list[Event]:
        events = []
        for change in changes:
            span = next((s for s in self._spans.get(change.tenant, ()) if s.covers(change.revision)), None)
            if span is None:
                continue
            served = await self._view.served(span.tenant)
            if served is None:
                continue
            filter_ = self._filters.get(id(served))
            if filter_ is None:
                filter_ = self._filters[id(served)] = EventFilter(
                    replace(self._view.selection, request=self._view.request._replace(served=served))
                )
            for event in await filter_.events((change,)):
                events.append(await annotated_event(event, served, span.tenant.name))
        return events


async def annotated_event(event: Event, served: Served, tenant: str) -> Event:
    """Annotates an event. The text is cached with the change, for all watches over several tenants, unless it is
    large."""
    cache = event.cache
    assert cache is not None, "an event of a change has its cache"
    key = (SUBRESOURCE, *event.text_key)
    known: str | None = cache.get(key)
    if known is not None:
        return Event(event.type, known, cache, key)
    text = await evaluate(partial(annotate, event.text, served, tenant), len(event.text), repeatable=True)
    EVENT_FORMS.keep(cache, key, text)
    return Event(event.type, text, cache, key)
