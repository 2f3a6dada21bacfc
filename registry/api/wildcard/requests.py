"""Lists and watches over several tenants: answers /clusters/*.

A provider sees the objects of the definitions that it exports, in the tenants that have bound them; an administrator of
the platform sees everything. Both see the tenants of one revision domain, so that a list is exact at one revision, and
a watch has one order and can be resumed anywhere. Each object names its tenant in an annotation. Objects have the form
in which their own tenant serves them; those that their tenant does not serve at the requested version are left out.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final

from registry.api import continuation
from registry.api.answers import Answer, Event, ListAnswer, WatchAnswer, one_chunk
from registry.api.bound_definitions import DEFINITIONS
from registry.api.decoding import object_of
from registry.api.definition_changes import FollowedDefinition
from registry.api.errors import bad_request, expired, forbidden, method_not_supported, revision_in_future
from registry.api.list_options import list_options
from registry.api.query.gathered import GatheredQuery, Item, is_gathered, parse_gathered, require_bounded
from registry.api.request import Backend, ResourceRequest
from registry.api.served import Served
from registry.api.verbs.event_filter import EVENT_FORMS, EventFilter
from registry.api.verbs.get import list_expired
from registry.api.verbs.selection import list_position, list_revision, selectors_size
from registry.api.verbs.watch import follow, watch_source
from registry.api.wildcard.view import WildcardView, annotate, wait
from registry.authorization.tenants import SUBRESOURCE, WildcardScope
from registry.builtin.sharing import EXPORTS, GROUP
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import evaluate
from registry.store.errors import RevisionExpired, RevisionInFuture
from registry.store.feed.subscription import Subscription
from registry.store.reads.wildcard import START, WildcardPage, WildcardRow
from registry.store.sharing import BindingSpan
from registry.store.types import Change, ObjectKey, ResourceName, Tenant, TenantId

_EXPORTS: Final = ResourceName(f"{EXPORTS}.{GROUP}")


async def find_lead(
    backend: Backend, tenant: Tenant, scope: WildcardScope, group: str, version: str, plural: str
) -> Tenant:
    """Returns a tenant of the domain that serves the resource, `tenant` if no other does; its definition shapes the
    answer."""
    if scope.provider is not None:
        return tenant
    catalog = await backend.catalogs.current(tenant)
    if catalog.served(group, version, plural) is None and group:
        name = await backend.store.sharing.defining(
            scope.domain, ResourceName(f"{plural}.{group}"), definitions=DEFINITIONS
        )
        if name is not None:
            return await backend.store.tenant(name)
    return tenant


async def serve(request: ResourceRequest, scope: WildcardScope, verb: str) -> Answer:
    if verb not in ("list", "watch") or request.subresource:
        raise method_not_supported(request.served.resource, verb)
    if scope.provider is not None:
        await _require_exported(request, scope.provider)
    options = list_options(request.query)
    make = partial(WildcardView, request, scope, options, watches=verb == "watch")
    view = await evaluate(make, selectors_size(options), repeatable=True)
    if verb == "watch":
        return await watch(view)
    return await (_gathered_list(view) if is_gathered(view.options) else _list(view))


async def _require_exported(request: ResourceRequest, provider: Tenant) -> None:
    name = request.served.definition.name
    if ResourceName(name) not in request.catalog.bound and not request.served.definition.builtin:
        page = await request.backend.store.page(provider, _EXPORTS)
        for row in page.rows:
            spec = (await object_of(row.body)).get("spec") or {}
            if name in (spec.get("definitions") or ()):
                return
    raise forbidden(request.served.resource, "", f'the tenant "{provider.name}" exports no such definition of its own')


async def _list(view: WildcardView) -> ListAnswer:
    options = view.options
    at, after, limit, *_ = list_position(options, view.request.served)
    await wait(view, list_revision(options.resource_version))
    try:
        page = await view.page(at, _place(after), limit)
    except RevisionExpired as error:
        raise list_expired(options, error) from error
    except RevisionInFuture as error:
        raise revision_in_future(error.revision, error.current) from error
    first = await view.texts(page.rows)
    if limit:
        token = _token(page) if page.more and page.rows else ""
        return ListAnswer(view.request.served, page.revision, one_chunk(first), token)

    async def chunks() -> AsyncIterator[Sequence[str]]:
        texts, current = first, page
        while True:
            yield texts
            if not current.more or not current.rows:
                return
            current = await view.page(page.revision, current.rows[-1].place, 0)
            texts = await view.texts(current.rows)

    return ListAnswer(view.request.served, page.revision, chunks())


async def _gathered_list(view: WildcardView) -> ListAnswer:
    """Lists with an order, an offset or a count; ties are ordered by tenant, namespace and name."""
    options, request = view.options, view.request
    query = parse_gathered(request, options, view.scope.domain)
    wanted = list_revision(options.resource_version)
    await wait(view, wanted)
    at = query.revision if query.token is not None else (wanted if options.is_exact and wanted else None)
    items: list[Item[str]] = []
    revision = size = 0
    try:
        async with aclosing(view.pages(at)) as pages:
            async for page in pages:
                revision = page.revision
                for one in page.rows:
                    text = await view.text(one)
                    if text is None:
                        continue
                    size += len(text)
                    require_bounded(len(items) + 1, size)
                    position = await evaluate(partial(_position_of, query, text), len(text), repeatable=True)
                    items.append(Item(position, f"{one.tenant.id:020}/{one.row.key}", text))
    except RevisionExpired as error:
        raise list_expired(options, error) from error
    except RevisionInFuture as error:
        raise revision_in_future(error.revision, error.current) from error
    answered = query.page(items, revision)
    chunks = one_chunk(answered.values)
    return ListAnswer(request.served, revision, chunks, answered.token, answered.remaining, answered.total)


def _position_of(query: GatheredQuery, text: str) -> bytes:
    return query.position(decode_stored(text))


def _token(page: WildcardPage) -> str:
    tenant, key = page.rows[-1].place
    return continuation.encode(page.revision, f"{tenant}/{key}")


def _place(after: ObjectKey | None) -> tuple[TenantId, ObjectKey]:
    if after is None:
        return START
    tenant, slash, key = after.partition("/")
    if not slash or not tenant.isascii() or not tenant.isdigit() or len(tenant) > 18:
        raise bad_request("invalid continue token: it is not one of a list over several tenants")
    return TenantId(int(tenant)), ObjectKey(key)


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

    async def follow(self, wake: Callable[[], None], revision: int) -> FollowedDefinition:
        # The provider's revisions may be those of another domain.
        return await follow(self.request, wake, known_at=None)

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
