"""Lists and watches over several tenants: answers /clusters/*.

A provider sees the objects of the definitions that it exports, in the tenants that have bound them; an administrator of
the platform sees everything. Both see the tenants of one revision domain, so that a list is exact at one revision, and
a watch has one order and can be resumed anywhere. Each object names its tenant in an annotation. Objects have the form
in which their own tenant serves them; those that their tenant does not serve at the requested version are left out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from registry.api import continuation
from registry.api.answers import Answer, ListAnswer
from registry.api.bound_definitions import DEFINITIONS
from registry.api.decoding import object_of
from registry.api.errors import bad_request, forbidden, method_not_supported, revision_in_future
from registry.api.list_options import list_options
from registry.api.query.gathered import GatheredQuery, Item, is_gathered, parse_gathered, require_bounded
from registry.api.request import Backend, ResourceRequest
from registry.api.verbs.list import list_expired
from registry.api.verbs.selection import list_position, list_revision, selectors_size
from registry.api.wildcard.view import WildcardView, wait
from registry.api.wildcard.watch import watch
from registry.authorization.tenants import WildcardScope
from registry.builtin.sharing import EXPORTS, GROUP
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import evaluate
from registry.store.errors import RevisionExpired, RevisionInFuture
from registry.store.reads.wildcard import START, WildcardPage
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantId

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


async def _gathered_list(view: WildcardView) -> ListAnswer:
    """Lists with an order, an offset or a count; ties are ordered by tenant, namespace and name."""
    options, request = view.options, view.request
    query = parse_gathered(request, options, view.scope.domain)
    wanted = list_revision(options.resource_version)
    await wait(view, wanted)
    exact = options.resource_version_match == "Exact" or (options.limit and not options.resource_version_match)
    at = query.revision if query.token is not None else (wanted if exact and wanted else None)
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

    async def one_chunk() -> AsyncIterator[Sequence[str]]:
        yield answered.values

    return ListAnswer(request.served, revision, one_chunk(), answered.token, answered.remaining, answered.total)


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
