"""What a list, a deletecollection and the initial events of a watch select.

A Selection combines the label and field selectors, the paging and the revision of a request. Terms that the index
supports become SQL; the others (names by `!=`, names over all namespaces) are filtered here, page by page, so that a
limit still means that many objects.

Follows apiserver pkg/storage/etcd3/store.go (GetList).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from registry.api import continuation
from registry.api.errors import bad_request
from registry.api.freshness import EVENTS, wait_for_revision
from registry.api.list_options import ListOptions, validate_list_options
from registry.api.options import parse_revision
from registry.api.query.filters import hidden_paths, text_test
from registry.api.request import ResourceRequest
from registry.api.selectors.fields import NAME, NAMESPACE, FieldTerm, field_terms, parse_field_selector, required_name
from registry.api.selectors.labels import parse_label_selector
from registry.api.selectors.requirements import FIELD_PREFIX
from registry.api.served import Served, field_value
from registry.api.verbs.readable import readable
from registry.codec.go_text import go_quote
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import LARGE_BYTES, evaluate
from registry.flowcontrol.time_slice import TimeSlice
from registry.query.fields import FieldPathError, query_schema, resolve
from registry.query.indexes import is_hidden, selects_any_field
from registry.store.bounds import READ_BYTES
from registry.store.errors import IndexNotReady
from registry.store.reads.pages import Places, Where
from registry.store.types import ObjectKey, Page, Requirement, Row

# Selectors of 4,096 letters and more are parsed in a thread.
_LETTER_BYTES = 16


class Fields(NamedTuple):
    """A parsed field selector: at most one key, requirements for SQL, and a filter of keys.

    `shows` tests the JSON of objects at the requested version. It is made of the filter (docs/query.md), and of terms
    of the selector if conversion changes more than the apiVersion: versions then differ in their fields, and the
    indexed values belong to only one of them.

    `labelled` are terms on selectable fields, whose values stand among the labels of a row. They are no more right than
    those: schemas may read other values from a body now than when it was written.
    """

    key: ObjectKey | None
    requirements: tuple[Requirement, ...]
    accepts: Callable[[ObjectKey], bool] | None
    shows: Callable[[str], bool] | None = None
    # The terms that `shows` tests.
    terms: tuple[FieldTerm, ...] = ()
    labelled: tuple[FieldTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """`at` None is the newest revision; `limit` 0 is none; `left` is what remained after the last page, if known.
    `from_memory` allows rows that the watch cache has; a deletion looks for its objects in PostgreSQL.

    `requirements` are of labels and of fields. Where `labels_needed` is not 0, they are right if the labels of all rows
    have been brought up to that (registry/query/indexes.py, Indexes.fields); `by_text` is right always.
    """

    request: ResourceRequest
    fields: Fields
    requirements: tuple[Requirement, ...]
    at: int | None = None
    after: ObjectKey | None = None
    limit: int = 0
    left: int | None = None
    from_memory: bool = False

    @property
    def labels_needed(self) -> int:
        """What of the labels of rows the requirements need; 0 if nothing."""
        return self.request.served.extraction.indexes.fields if self.fields.labelled else 0

    def by_text(self) -> Selection:
        """Returns the same selection, which finds selectable fields by the texts of objects instead of labels."""
        fields = self.fields
        if not fields.labelled:
            return self
        shows = _text_test(fields.labelled)
        shows = shows if fields.shows is None else _all_of(shows, fields.shows)
        requirements = tuple([one for one in self.requirements if not one.key.startswith(FIELD_PREFIX)])
        return replace(self, fields=fields._replace(shows=shows, labelled=()), requirements=requirements)

    def labels_hold(self, revision: int, schema: int) -> bool:
        """Whether the labels of a row are right for the requirements, as far as it says itself: it has been written
        since the last write of the definition, and a write is committed only under the newest definition.

        Rows that no schema has processed may be older than the rule for their labels.
        """
        served = self.request.served
        return not self.fields.labelled or (
            schema != 0
            and revision > served.definition.revision
            and not served.converts_contents
            and all(term.field in served.definition.selectable_fields for term in self.fields.labelled)
        )

    async def page(self) -> Page:
        """Returns the only page of a selection with a limit; it has fewer rows than that if they are large.

        Raises CatalogStale if the definitions have changed, RevisionExpired below the compact revision.
        """
        assert self.limit, "without a limit there are pages"
        try:
            return await self._page()
        except IndexNotReady as error:
            self._note_incomplete(error)
            return await self.by_text()._page()

    async def _page(self) -> Page:
        """Raises IndexNotReady."""
        if self.fields.accepts is None and self.fields.shows is None:
            return await self._rows()
        selected: list[Row] = []
        size = 0
        async with aclosing(self._all()) as pages:
            async for page in pages:
                rows = await self._filter(page.rows)
                left = self.limit - len(selected)
                selected += rows[:left]
                size += sum([len(row.body) for row in rows[:left]])
                if len(rows) > left or (len(selected) == self.limit and page.more) or size > READ_BYTES:
                    more = page.more or len(rows) > left
                    return Page(selected, page.revision, more, None, page.state)
        return Page(selected, page.revision, False, None, page.state)

    async def pages(self, *, fresh: bool = True) -> AsyncGenerator[Page, None]:
        """Yields the selected rows in pages of bounded size, at least one, all at the revision of the first.

        The first raises as `page` does, but CatalogStale only if `fresh`. With a limit there is only one page.
        """
        if self.limit:
            yield await self.page()
            return
        rest = self
        try:
            async with aclosing(self._all(fresh=fresh)) as pages:
                async for page in pages:
                    rows = await self._filter(page.rows)
                    if page.rows:
                        rest = replace(self, at=page.revision, after=page.rows[-1].key)
                    yield page if rows is page.rows else replace(page, rows=rows)
            return
        except IndexNotReady as error:
            self._note_incomplete(error)
        async with aclosing(rest.by_text().pages(fresh=fresh and rest is self)) as pages:
            async for page in pages:
                yield page

    async def keys(self) -> AsyncGenerator[tuple[int, Sequence[ObjectKey]], None]:
        """Yields the revision, and the keys of the selected rows, for a selection without a limit."""
        rest = self
        if self.fields.shows is None:
            try:
                async with aclosing(self._places()) as parts:
                    async for part in parts:
                        if part.places:
                            rest = replace(self, at=part.revision, after=part.places[-1].key)
                        accepts = self.fields.accepts
                        yield part.revision, [p.key for p in part.places if accepts is None or accepts(p.key)]
                return
            except IndexNotReady as error:
                self._note_incomplete(error)
                rest = rest.by_text()
        async with aclosing(rest.pages(fresh=rest.after == self.after)) as pages:
            async for page in pages:
                yield page.revision, [row.key for row in page.rows]

    async def _places(self) -> AsyncGenerator[Places, None]:
        """Raises IndexNotReady."""
        request = self.request
        parts = request.backend.store.places(request.tenant, request.served.resource_name, **self._where())
        fresh = True
        async with aclosing(parts):
            async for part in parts:
                if fresh:
                    request.check_fresh(part.state)
                fresh = False
                yield part

    def _note_incomplete(self, error: IndexNotReady) -> None:
        """Has the labels brought up to date, unless they are by now and only the past is read by texts."""
        if error.since is None:
            self.request.build_indexes()

    async def _all(self, *, fresh: bool = True) -> AsyncGenerator[Page, None]:
        """Yields the pages before the filters of this module. Raises IndexNotReady."""
        request = self.request
        pages = request.backend.store.scan(request.tenant, request.served.resource_name, **self._where())
        async with aclosing(pages):
            async for page in pages:
                if fresh:
                    request.check_fresh(page.state)
                fresh = False  # all are of the revision of the first
                yield page

    async def _filter(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Applies the filters of this module: by key, and by fields after conversion."""
        accepts, shows = self.fields.accepts, self.fields.shows
        if accepts is not None:
            rows = [row for row in rows if accepts(row.key)]
        if shows is not None:
            shown: list[Row] = []
            slices = TimeSlice.current()
            for row, text in zip(*await readable(self.request, rows), strict=True):
                if len(text) > LARGE_BYTES:
                    is_shown = await evaluate(partial(shows, text), len(text), repeatable=True)
                else:
                    is_shown = shows(text)
                if is_shown:
                    shown.append(row)
                if slices.expired():
                    await slices.yield_now()
            rows = shown
        return rows

    async def _rows(self) -> Page:
        request = self.request
        page = await request.backend.store.page(
            request.tenant, request.served.resource_name, limit=self.limit, left=self.left, **self._where()
        )
        request.check_fresh(page.state)
        return page

    def _where(self) -> Where:
        return {
            "namespace": self.request.namespace or None,
            "at": self.at,
            "after": self.after,
            "requirements": self.requirements,
            "key": self.fields.key,
            "labels": self.labels_needed,
            "from_memory": self.from_memory,
        }

    def continue_token(self, page: Page) -> str:
        if not page.more or not page.rows:
            return ""
        return continuation.encode(page.revision, page.rows[-1].key, page.remaining, _list_name(self.request))


def select(request: ResourceRequest, options: ListOptions) -> Selection:
    """Parses the selectors and where the list starts. Raises 400 for what cannot be parsed."""
    selection = parse_selection(request, options)
    if options.watch:
        return selection
    position = list_position(options, request.served)
    left = position.left if position.of == _list_name(request) else None
    return replace(selection, at=position.at, after=position.after, limit=position.limit, left=left)


def selectors_size(options: ListOptions) -> int:
    """How long parsing the selectors takes, as the size of what takes as long: a microsecond a letter."""
    return _LETTER_BYTES * (len(options.label_selector) + len(options.field_selector))


def _list_name(request: ResourceRequest) -> str:
    return f"{request.served.resource_name}/{request.namespace}"


def parse_selection(request: ResourceRequest, options: ListOptions, *, by_identity: bool = False) -> Selection:
    """Parses the selectors alone. Raises 400 for what cannot be parsed.

    `by_identity` allows no fields but name and namespace.
    """
    labels = parse_label_selector(options.label_selector)
    if options.field_selector:
        field_terms(options.field_selector)  # its syntax comes first, whether its fields can be selected last
    validate_list_options(options)
    fields = _fields(request, options.field_selector, by_identity=by_identity)
    requirements = (*labels.requirements, *fields.requirements)
    if options.order_by or options.offset or options.count:
        raise bad_request("orderBy, offset and count are parameters of lists in one tenant")
    if options.filter:
        fields = fields._replace(shows=_all_of(fields.shows, text_test(request, options.filter, watches=options.watch)))
    return Selection(request, fields, requirements)


class ListPosition(NamedTuple):
    """Where a list begins. `left` objects of the list `of` follow, if its token says so."""

    at: int | None
    after: ObjectKey | None
    limit: int
    left: int | None = None
    of: str = ""


def list_position(options: ListOptions, served: Served) -> ListPosition:
    """Returns where a list begins. At revision 0 the limit is ignored: the original serves it from the watch cache, but
    for events, which are not there."""
    text = options.resource_version
    limit = 0 if text == "0" and served.resource_name != EVENTS else options.limit
    if options.continue_:
        token = continuation.decode(options.continue_)
        if text not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        at = None if token.revision < 0 else token.revision
        return ListPosition(at, ObjectKey(token.after), limit, token.left, token.of)
    revision = list_revision(text)
    return ListPosition(revision if options.is_exact and revision else None, None, limit)


async def wait_for_list(selection: Selection, options: ListOptions) -> None:
    """Waits until the resource version of a list has been reached. Raises 504 if it has not after a while.

    kube-apiserver's watch cache has no single objects of the past, so for these it asks etcd, which does not wait.
    """
    if options.is_exact and selection.fields.key is not None:
        return
    if wanted := list_revision(options.resource_version):
        await wait_for_revision(selection.request, wanted)


def list_revision(text: str) -> int:
    try:
        return parse_revision(text) if text else 0
    except ValueError as error:
        raise bad_request(
            f"invalid resource version: resourceVersion: Invalid value: {go_quote(text)}: {error}"
        ) from error


def _terms(request: ResourceRequest, text: str, *, by_identity: bool) -> Sequence[FieldTerm]:
    """Returns the terms of the selector, or one for the name of the request: either can name a single object.

    If both do, they must agree (apiserver pkg/endpoints/handlers/get.go).
    """
    by_name = [FieldTerm(NAME, True, request.name)] if request.name else []
    if not text:
        return by_name
    served = request.served
    strategy = served.strategy
    selectable = (*strategy.field_labels(), *strategy.scanned_fields, *_any_fields(request, text))
    # Cluster-scoped objects of built-in kinds without fields of their own can be selected by namespace: it is empty.
    terms = parse_field_selector(
        text,
        namespaced=served.namespaced or (served.definition.builtin and not strategy.field_labels()),
        selectable=() if by_identity else selectable,
        only_name_and_namespace=strategy.only_name_and_namespace,
    )
    if request.name and terms and required_name(terms) != request.name:
        raise bad_request("fieldSelector metadata.name doesn't match requested name")
    return terms or by_name


def _fields(request: ResourceRequest, text: str, *, by_identity: bool) -> Fields:
    served = request.served
    strategy = served.strategy
    terms = _terms(request, text, by_identity=by_identity)
    requirements: list[Requirement] = []
    looked_at: list[FieldTerm] = []
    labelled: list[FieldTerm] = []
    tests: list[Callable[[ObjectKey], bool]] = []
    key: ObjectKey | None = None
    for term in terms:
        if term.field == NAME and term.equal and (request.namespace or not served.namespaced):
            wanted = served.key(request.namespace, term.value)
            if key is not None and key != wanted:
                tests.append(_nothing)
            key = wanted
        elif term.field in (NAME, NAMESPACE):
            tests.append(_part_test(term.field == NAME, term.value, term.equal))
        elif served.converts_contents or term.field not in strategy.field_labels() or term.field == "apiVersion":
            looked_at.append(term)
        else:
            requirements.append(replace(term, field=strategy.stored_field(term.field)).requirement())
            if not served.definition.builtin:
                labelled.append(term)
    accepts = (lambda k: all(t(k) for t in tests)) if tests else None
    shows = _text_test(looked_at) if looked_at else None
    return Fields(key, tuple(requirements), accepts, shows, tuple(looked_at), tuple(labelled))


def _any_fields(request: ResourceRequest, text: str) -> Iterator[str]:
    """Yields the fields of a selector if the definition allows any scalar field that is not sensitive."""
    if not selects_any_field(request.served.definition):
        return
    root, hidden = query_schema(request.served.version.schema().structural), hidden_paths(request)
    for term in field_terms(text):
        try:
            field = resolve(root, tuple(term.field.split(".")))
        except FieldPathError:
            continue
        if not field.is_array and not is_hidden(field.path, hidden):
            yield term.field


def _text_test(terms: Sequence[FieldTerm]) -> Callable[[str], bool]:
    def shows(text: str) -> bool:
        obj = decode_stored(text)
        return all((field_value(obj, term.field) == term.value) is term.equal for term in terms)

    return shows


def _all_of(first: Callable[[str], bool] | None, second: Callable[[str], bool]) -> Callable[[str], bool]:
    return second if first is None else lambda text: first(text) and second(text)


def _nothing(_: ObjectKey) -> bool:
    return False


def _part_test(is_name: bool, value: str, equal: bool) -> Callable[[ObjectKey], bool]:
    part = 2 if is_name else 0
    return lambda key: (key.rpartition("/")[part] == value) is equal
