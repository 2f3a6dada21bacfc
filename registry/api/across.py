"""Lists and watches over several tenants: what answers /clusters/*.

A provider sees the objects of the definitions that it exports, in the tenants that have bound them; an administrator of
the platform sees everything. Either sees the tenants of one revision domain, so that a list is exact at one revision
and a watch has one order and can be resumed anywhere. Each object tells its tenant in an annotation. An object is shown
as its own tenant would show it; what that tenant does not serve at the version that is asked for is left out.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from registry.access.across import SUBRESOURCE, Across
from registry.api import continuation
from registry.api.answers import Answer, Event, ListAnswer, WatchAnswer
from registry.api.errors import (
    StatusError,
    bad_request,
    expired,
    forbidden,
    method_not_supported,
    revision_in_future,
)
from registry.api.freshness import STEP_SECONDS, WAIT_SECONDS
from registry.api.list import (
    Fields,
    expired_list,
    image_of,
    list_position,
    list_revision,
    parse_selection,
)
from registry.api.options import ListOptions, list_options
from registry.api.request import Backend, CatalogStale, ResourceRequest
from registry.api.selectors import satisfies
from registry.api.served import Served
from registry.api.strategy import Context
from registry.api.watch import (
    BOOKMARK_SECONDS,
    MIN_WATCH_SECONDS,
    Sight,
    begins_with_state,
    bookmark,
    error_event,
    is_superseded,
    start_of,
)
from registry.builtin.sharing import EXPORTS, GROUP
from registry.codec.json_encode import encode_json_text
from registry.codec.stored import decode_stored
from registry.store.across import START, AcrossPage, AcrossRow
from registry.store.errors import RevisionExpired, RevisionInFuture, StoreError
from registry.store.sharing import Span
from registry.store.types import Change, ObjectKey, ResourceName, Tenant, TenantId

ANNOTATION: Final = "tenancy.registry/tenant"
_EXPORTS: Final = ResourceName(f"{EXPORTS}.{GROUP}")
_CHUNK: Final = 500
# How often a watch looks whether a tenant has been removed: its objects go without events.
_LOOK_SECONDS: Final = 5.0
_TENANT_GONE: Final = "a tenant has been removed with all its objects: list again"


async def find_lead(backend: Backend, context: Context, group: str, version: str, plural: str) -> None:
    """Makes a tenant of the domain that has the resource the one by whose definition the answer is formed."""
    across = context.across
    if across is None or across.provider is not None:
        return
    catalog = await backend.catalogs.current(context.tenant)
    if catalog.served(group, version, plural) is None and group:
        name = await backend.store.sharing.defining(across.domain, ResourceName(f"{plural}.{group}"))
        if name is not None:
            context.tenant = await backend.store.tenant(name)


async def serve(request: ResourceRequest, across: Across, verb: str) -> Answer:
    if verb not in ("list", "watch") or request.subresource:
        raise method_not_supported(request.served.resource, verb)
    if across.provider is not None:
        await _require_exported(request, across.provider)
    view = View(request, across)
    return await (_list(view) if verb == "list" else _watch(view))


async def _require_exported(request: ResourceRequest, provider: Tenant) -> None:
    name = request.served.definition.name
    if ResourceName(name) not in request.catalog.bound and not request.served.definition.strategy:
        page = await request.backend.store.page(provider, _EXPORTS)
        for row in page.rows:
            spec = decode_stored('{"metadata":{' + row.body).get("spec") or {}
            if name in (spec.get("definitions") or ()):
                return
    raise forbidden(request.served.resource, "", f'the tenant "{provider.name}" exports no such definition of its own')


class View:
    """What one request sees of the tenants."""

    def __init__(self, request: ResourceRequest, across: Across) -> None:
        self.request = request
        self.across = across
        self.options = list_options(request.query)
        self.selection = parse_selection(request, self.options)
        if self.selection.fields.shows is not None:
            raise bad_request("fields of a definition whose versions are converted cannot be selected across tenants")
        self._served: dict[TenantId, tuple[int, Served | None]] = {}

    @property
    def fields(self) -> Fields:
        return self.selection.fields

    async def served(self, tenant: Tenant) -> Served | None:
        """The resource as the tenant serves it: bound tenants as their provider, others by their own definitions."""
        request = self.request
        if self.across.provider is not None or request.served.definition.strategy:
            return request.served
        known = self._served.get(tenant.id)
        if known is None or known[0] < tenant.guards.definitions:
            catalog = await request.backend.catalogs.fresh(tenant, tenant.guards)
            definition = request.served.definition
            found = catalog.served(definition.group, request.served.version.name, definition.names.plural)
            known = (tenant.guards.definitions, request.converting(found) if found is not None else None)
            self._served[tenant.id] = known
        return known[1]

    async def page(self, at: int | None, after: tuple[TenantId, ObjectKey], limit: int) -> AcrossPage:
        """A page of what the selectors select; with `limit` 0 a chunk, which may have fewer rows than there are."""
        request, found = self.request, list[AcrossRow]()
        while True:
            page = await request.backend.store.page_across(
                self.across.domain, self.across.provider, request.served.resource_name,
                namespace=request.namespace or None, at=at, after=after, limit=limit or _CHUNK)
            for position, row in enumerate(page.rows):
                if not self._selects(row):
                    continue
                found.append(row)
                if limit and len(found) == limit:
                    more = page.more or any(self._selects(r) for r in page.rows[position + 1:])
                    return AcrossPage(found, page.revision, more)
            if not page.more or (found and not limit):
                return AcrossPage(found, page.revision, page.more)
            after, at = page.rows[-1].place, page.revision

    def _selects(self, row: AcrossRow) -> bool:
        fields = self.fields
        return ((fields.key is None or fields.key == row.row.key)
                and (fields.accepts is None or fields.accepts(row.row.key))
                and satisfies(self.selection.requirements, row.labels))

    async def texts(self, rows: Sequence[AcrossRow]) -> list[str]:
        found = []
        for one in rows:
            served = await self.served(one.tenant)
            if served is None:
                continue
            if served.conversions is not None:
                text = (await served.conversions.texts(served, [image_of(one.row)]))[0]
            else:
                text = served.leniently().text(one.row) if one.row.version not in served.definition.versions \
                    else served.text(one.row)
            found.append(annotated(text, served, one.tenant.name))
        return found

    async def spans(self) -> list[Span]:
        sharing, across = self.request.backend.store.sharing, self.across
        if across.provider is None:
            return await sharing.of_domain(across.domain)
        return await sharing.spans(across.provider, self.request.served.resource_name, across.domain)


def annotated(text: str, served: Served, tenant: str) -> str:
    """The object with the annotation that names its tenant: spliced in where the text is what is stored."""
    if text.startswith(served.head) and ANNOTATION not in text:
        end = text.find('",', len(served.head)) + 2
        if text.startswith('"annotations":{"', end):
            return f'{text[:end]}"annotations":{{"{ANNOTATION}":"{tenant}",{text[end + 15:]}'
        if end > 1 and '"annotations"' not in text:
            return f'{text[:end]}"annotations":{{"{ANNOTATION}":"{tenant}"}},{text[end:]}'
    obj = decode_stored(text)
    annotations = {**(obj["metadata"].get("annotations") or {}), ANNOTATION: tenant}
    return encode_json_text({**obj, "metadata": {**obj["metadata"], "annotations": annotations}})


# -- list
async def _list(view: View) -> ListAnswer:
    options = view.options
    at, after, limit = list_position(options)
    await _wait(view, list_revision(options.resource_version))
    try:
        page = await view.page(at, _place(after), limit)
    except RevisionExpired as error:
        raise expired_list(options, error) from error
    except RevisionInFuture as error:
        raise revision_in_future(error.revision, error.current) from error
    first = await view.texts(page.rows)
    if limit:
        async def one() -> AsyncIterator[Sequence[str]]:
            yield first

        token = _token(page) if page.more and page.rows else ""
        return ListAnswer(view.request.served, page.revision, one(), token)

    async def chunks() -> AsyncIterator[Sequence[str]]:
        texts, current = first, page
        while True:
            yield texts
            if not current.more or not current.rows:
                return
            current = await view.page(page.revision, current.rows[-1].place, 0)
            texts = await view.texts(current.rows)

    return ListAnswer(view.request.served, page.revision, chunks())


def _token(page: AcrossPage) -> str:
    tenant, key = page.rows[-1].place
    return continuation.encode(page.revision, f"{tenant}/{key}")


def _place(after: ObjectKey | None) -> tuple[TenantId, ObjectKey]:
    if after is None:
        return START
    tenant, slash, key = after.partition("/")
    if not slash or not tenant.isascii() or not tenant.isdigit() or len(tenant) > 18:
        raise bad_request("invalid continue token: it is not one of a list over several tenants")
    return TenantId(int(tenant)), ObjectKey(key)


async def _wait(view: View, revision: int) -> None:
    """As freshness.py, for the domain."""
    waited = 0.0
    while revision:
        page = await view.request.backend.store.page_across(
            view.across.domain, view.across.provider, view.request.served.resource_name, limit=1)
        if page.revision >= revision:
            return
        if waited >= WAIT_SECONDS:
            raise revision_in_future(revision, page.revision)
        await asyncio.sleep(STEP_SECONDS)
        waited += STEP_SECONDS


# -- watch
async def _watch(view: View) -> WatchAnswer:
    view.options = options = replace(view.options, watch=True)
    revision = start_of(options)
    await _wait(view, revision)
    page = await view.page(None, START, 0) if begins_with_state(options, revision) else None
    return WatchAnswer(view.request.served, _events(view, options, revision, page))


async def _events(view: View, options: ListOptions, revision: int,
                  page: AcrossPage | None) -> AsyncIterator[Sequence[Event]]:
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
            if options.allow_watch_bookmarks:
                yield [bookmark(request, revision, ends_initial_events=True)]
        elif revision == 0:
            revision = (await view.page(None, START, 1)).revision
        async for events in _live(view, options, revision, deadline):
            yield events
    except StatusError as error:
        yield [error_event(error)]
    except RevisionExpired as error:
        yield [error_event(expired(f"too old resource version: {error.revision} ({error.floor})"))]
    except (CatalogStale, StoreError):
        return      # the client resumes from the last revision that it has seen


async def _live(view: View, options: ListOptions, revision: int, deadline: float) -> AsyncIterator[Sequence[Event]]:
    request = view.request
    now = asyncio.get_running_loop().time
    quiet_since = now()
    eyes = Eyes(view)
    await eyes.look()
    schemas = {request.served.identity}
    subscription = await request.backend.store.subscribe_across(view.across.domain, request.served.resource_name,
                                                                revision)
    try:
        while (left := deadline - now()) > 0:
            silence = quiet_since + BOOKMARK_SECONDS - now()
            batch = await subscription.next_batch(max(0.0, min(left, silence, _LOOK_SECONDS)))
            # As of now, and so of no earlier than what was read: a change is seen by who had bound at its revision.
            await eyes.look()
            if not schemas.issuperset([change.schema for change in batch.changes]):
                schemas.update([change.schema for change in batch.changes])
                if view.across.provider is not None and await is_superseded(request):
                    return      # the client resumes, and is shown these changes by the new definition
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
    finally:
        subscription.close()


class Eyes:
    """What a watch over several tenants sees of the domain's changes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._spans: Mapping[TenantId, Sequence[Span]] = {}
        self._sights: dict[int, Sight] = {}

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
                sight = self._sights[id(served)] = Sight(replace(self._view.selection, request=replace(
                    self._view.request, served=served)))
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
        text = cache[key] = annotated(event.text, served, tenant)
    return Event(event.type, text, cache, key)
