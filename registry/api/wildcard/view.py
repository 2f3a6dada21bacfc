"""A request's view of several tenants: their rows in pages, each object as its own tenant serves it.

Each object names its tenant in an annotation.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from registry.api.converted_texts import convert_texts
from registry.api.errors import bad_request
from registry.api.freshness import wait_until
from registry.api.list_options import ListOptions
from registry.api.query.filters import text_test
from registry.api.query.gathered import too_many
from registry.api.query.reading import MAX_EXAMINED
from registry.api.request import ResourceRequest
from registry.api.selectors.requirements import holds, row_test
from registry.api.served import Served
from registry.api.verbs.readable import image_of
from registry.api.verbs.selection import Fields, parse_selection
from registry.authorization.tenants import WildcardScope
from registry.codec.json_encode import encode_json_text
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import evaluate
from registry.store.bounds import READ_BYTES
from registry.store.reads.wildcard import START, WildcardPage, WildcardRow
from registry.store.sharing import BindingSpan
from registry.store.types import ObjectKey, Tenant, TenantId

ANNOTATION: Final = "tenancy.registry/tenant"
_CHUNK: Final = 500


class WildcardView:
    """The view of one request. Its selectors may be long: callers evaluate it."""

    def __init__(self, request: ResourceRequest, scope: WildcardScope, options: ListOptions, *, watches: bool) -> None:
        self.request = request
        self.scope = scope
        self.options = options
        plain = replace(self.options, filter="")
        if not watches:
            plain = replace(plain, order_by="", offset=0, count="")
        selection = parse_selection(request, plain)
        if selection.fields.shows is not None:
            raise bad_request("fields of a definition whose versions are converted cannot be selected across tenants")
        self._selects_labels = row_test(selection.requirements) if selection.requirements else None
        by_text = selection.by_text()
        self._selects_labels_alone = row_test(by_text.requirements) if by_text.requirements else None
        self._shows = by_text.fields.shows
        self._filter = text_test(request, self.options.filter, watches=watches) if self.options.filter else None
        self.selection = replace(selection, fields=selection.fields._replace(shows=self._filter))
        self._examined = 0
        self._served: dict[TenantId, tuple[int, Served | None]] = {}

    @property
    def fields(self) -> Fields:
        return self.selection.fields

    async def served(self, tenant: Tenant) -> Served | None:
        """Returns the resource as the tenant serves it: bound tenants as the provider, others by their definitions."""
        request = self.request
        if self.scope.provider is not None or request.served.definition.builtin:
            return request.served
        known = self._served.get(tenant.id)
        if known is None or known[0] < tenant.guards.definitions:
            catalog = await request.backend.catalogs.fresh(tenant, tenant.guards)
            definition = request.served.definition
            stored = catalog.served(definition.group, request.served.version.name, definition.names.plural)
            known = (tenant.guards.definitions, request.converting(stored) if stored is not None else None)
            self._served[tenant.id] = known
        return known[1]

    async def page(self, at: int | None, after: tuple[TenantId, ObjectKey], limit: int) -> WildcardPage:
        """Returns a page of selected rows; with `limit` 0 a chunk, which may have fewer rows than there are."""
        request, selection = self.request, list[WildcardRow]()
        while True:
            page = await request.backend.store.wildcard.page(
                self.scope.domain,
                self.scope.provider,
                request.served.resource_name,
                namespace=request.namespace or None,
                at=at,
                after=after,
                limit=limit or _CHUNK,
            )
            selected = await self._selected(page.rows)
            left = limit - len(selection) if limit else len(selected)
            selection += selected[:left]
            if limit and len(selection) == limit:
                return WildcardPage(selection, page.revision, page.more or len(selected) > left)
            size = sum([len(one.row.body) for one in selection])
            if not page.more or (selection and not limit) or size > READ_BYTES:
                return WildcardPage(selection, page.revision, page.more)
            after, at = page.rows[-1].place, page.revision

    async def pages(self, at: int | None = None) -> AsyncGenerator[WildcardPage, None]:
        """Yields all selected rows, at revision `at` or that of the first page."""
        page = await self.page(at, START, 0)
        while True:
            yield page
            if not page.more or not page.rows:
                return
            page = await self.page(page.revision, page.rows[-1].place, 0)

    async def _selected(self, rows: Sequence[WildcardRow]) -> Sequence[WildcardRow]:
        """Returns the rows that the selectors and the filter select. Raises 400 if a filter would examine too many."""
        rows = [row for row in rows if await self._selects(row)]
        matches = self._filter
        if matches is None:
            return rows
        self._examined += len(rows)
        if self._examined > MAX_EXAMINED:
            raise too_many()
        selected = []
        for row in rows:
            text = await self._text(row)
            if text is not None and await evaluate(partial(matches, text), len(text), repeatable=True):
                selected.append(row)
        return selected

    async def _selects(self, row: WildcardRow) -> bool:
        fields, key = self.fields, row.row.key
        if (fields.key is not None and fields.key != key) or (fields.accepts is not None and not fields.accepts(key)):
            return False
        shows = None if self._shows is None or await self._labels_hold(row) else self._shows
        selects = self._selects_labels if shows is None else self._selects_labels_alone
        if selects is not None and not await holds(selects, row.labels):
            return False
        text = await self._text(row) if shows is not None else None
        return shows is None or (text is not None and await evaluate(partial(shows, text), len(text), repeatable=True))

    async def _labels_hold(self, row: WildcardRow) -> bool:
        """Whether selectable fields can be found among the labels of a row, by the definition of its tenant."""
        served = await self.served(row.tenant)
        if served is None:
            return True
        selection = replace(self.selection, request=self.request._replace(served=served))
        return selection.labels_hold(row.row.revision, row.row.schema)

    async def texts(self, rows: Sequence[WildcardRow]) -> list[str]:
        texts = []
        for one in rows:
            text = await self.text(one)
            if text is not None:
                texts.append(text)
        return texts

    async def text(self, one: WildcardRow) -> str | None:
        """Returns the object with its tenant; None if the tenant does not serve it."""
        served = await self.served(one.tenant)
        text = await self._text(one)
        if served is None or text is None:
            return None
        return await evaluate(partial(annotate, text, served, one.tenant.name), len(text), repeatable=True)

    async def _text(self, one: WildcardRow) -> str | None:
        """Returns the object as its tenant serves it; None if it does not."""
        served = await self.served(one.tenant)
        if served is None:
            return None
        if served.conversions is not None:
            return (await convert_texts(served, [image_of(one.row)]))[0]
        known = one.row.version in served.definition.versions
        served = served if known else served.leniently()
        return await evaluate(partial(served.text, one.row), len(one.row.body), repeatable=True)

    async def spans(self) -> list[BindingSpan]:
        sharing, scope = self.request.backend.store.sharing, self.scope
        if scope.provider is None:
            return await sharing.of_domain(scope.domain)
        return await sharing.spans(scope.provider, self.request.served.resource_name, scope.domain)


def annotate(text: str, served: Served, tenant: str) -> str:
    """Adds the annotation that names the object's tenant: spliced in if the text is the stored one."""
    if text.startswith(served.head) and ANNOTATION not in text:
        end = text.find('",', len(served.head)) + 2
        if text.startswith('"annotations":{"', end):
            return f'{text[:end]}"annotations":{{"{ANNOTATION}":"{tenant}",{text[end + 15 :]}'
        if end > 1 and '"annotations"' not in text:
            return f'{text[:end]}"annotations":{{"{ANNOTATION}":"{tenant}"}},{text[end:]}'
    obj = decode_stored(text)
    annotations = {**(obj["metadata"].get("annotations") or {}), ANNOTATION: tenant}
    return encode_json_text({**obj, "metadata": {**obj["metadata"], "annotations": annotations}})


async def wait(view: WildcardView, revision: int) -> None:
    """Waits for a revision as freshness.py does, but of the domain."""

    if revision:
        scope, resource = view.scope, view.request.served.resource_name
        await wait_until(
            revision, lambda: view.request.backend.store.wildcard.page(scope.domain, scope.provider, resource, limit=1)
        )
