"""Reads the matches of a query in its order, exact at one revision: by an index, or by a scan.

A source yields hits from the position of the query on. It raises IndexNotReady, and QueryTooLarge if it would read
more than a query may; the next source is then tried. Whatever it reads is bounded before the first byte of an answer.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from registry.api.errors import bad_request
from registry.api.query.filters import TOO_EXPENSIVE
from registry.api.query.parsing import ListQuery
from registry.api.request import ResourceRequest
from registry.api.selectors.fields import NAME, NAMESPACE
from registry.api.selectors.requirements import row_test
from registry.api.served import labels_of
from registry.api.verbs.readable import readable
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import evaluate
from registry.query.constraints import Points
from registry.query.encoding import invert, revert
from registry.query.language import FilterTooExpensive
from registry.query.ordering import Order, position
from registry.query.planner import Plan, Segment
from registry.store.encoding import label_element
from registry.store.errors import IndexNotReady, QueryTooLarge
from registry.store.labels import StoredLabels
from registry.store.reads.indexed import IndexPage, IndexRead, Span
from registry.store.reads.words import Words
from registry.store.types import ObjectKey, Requirement, Row, SelectorOperator

# Limits on the objects and bytes that a query may examine, apart from those that an index alone returns.
MAX_EXAMINED: Final = 5_000
MAX_EXAMINED_BYTES: Final = 64 << 20
# Limit on the processor time of one query's filter and order.
MAX_SECONDS: Final = 3.0
# The numbers up to which matches are counted.
MAX_COUNTED: Final = 1_000_000
MAX_ESTIMATED: Final = 10_000

_ROWS: Final = 500
_ROWS_AT_A_TIME: Final = 50
_LABELS: Final = ("metadata", "labels")


class Hit(NamedTuple):
    """A matching object. `position` is bytes that compare in the order of the list."""

    position: bytes
    key: ObjectKey
    row: Row
    text: str

    @property
    def place(self) -> tuple[bytes, bytes]:
        return self.position, self.key.encode()


class Examiner:
    """Decides which rows match, and their positions, within the cost limits of one query."""

    def __init__(self, query: ListQuery, order: Order, requirements: Sequence[Requirement] = ()) -> None:
        """`requirements` are those not yet applied when the rows were read."""
        self._query = query
        self._order = order
        self._selects_labels = row_test(requirements) if requirements else None
        self._objects = query.spent.objects
        self._bytes = query.spent.bytes

    async def hits(self, rows: Sequence[Row]) -> list[Hit]:
        """Returns the hits among rows. Raises QueryTooLarge, and 400 if the filter costs too much."""
        request = self._query.request
        selection = self._query.selection
        if selection.fields.accepts is not None:
            rows = [row for row in rows if selection.fields.accepts(row.key)]
        self._objects += len(rows)
        self._bytes += sum([len(row.body) for row in rows])
        if self._objects > MAX_EXAMINED or self._bytes > MAX_EXAMINED_BYTES:
            raise QueryTooLarge("too many objects")
        rows, texts = await readable(request, rows)
        hits: list[Hit] = []
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            some, read = rows[start : start + _ROWS_AT_A_TIME], texts[start : start + _ROWS_AT_A_TIME]
            try:
                hits += await evaluate(partial(self._hits, some, read), sum(map(len, read)), repeatable=True)
            except FilterTooExpensive as error:
                raise bad_request(TOO_EXPENSIVE) from error
        return hits

    def _hits(self, rows: Sequence[Row], texts: Sequence[str]) -> list[Hit]:
        return [hit for row, text in zip(rows, texts, strict=True) if (hit := self._hit(row, text)) is not None]

    def _hit(self, row: Row, text: str) -> Hit | None:
        """Returns the hit of a row, or None. Raises FilterTooExpensive."""
        query = self._query
        spent = query.spent
        if spent.seconds > MAX_SECONDS:
            raise FilterTooExpensive
        began = time.thread_time()
        try:
            obj = decode_stored(text)
            matches = self._is_selected(obj, text) and query.matches(obj)
            return Hit(position(self._order, query.visible(obj)), row.key, row, text) if matches else None
        finally:
            spent.seconds += time.thread_time() - began

    def note_spent(self) -> None:
        """Counts what was examined towards further reads of the same query."""
        self._query.spent.objects = self._objects
        self._query.spent.bytes = self._bytes

    def _is_selected(self, obj: Any, text: str) -> bool:
        selection = self._query.selection
        selects = self._selects_labels
        if selects is not None:
            labels = labels_of(obj, selection.request.served.strategy)
            if not selects(StoredLabels.of([label_element(label) for label in labels])):
                return False
        return selection.fields.shows is None or selection.fields.shows(text)


class Scan:
    """Examines all objects of a range of keys, or with labels or `words`, if they are few enough."""

    def __init__(self, query: ListQuery, words: Words | None = None) -> None:
        self.name = "scan" if words is None else "words"
        self._query = query
        self._words = words
        self.order: Order = query.order or ()
        self.revision = 0
        self.total: int | None = None
        self.is_streamed = False

    async def batches(self) -> AsyncGenerator[Sequence[Hit], None]:
        query, request = self._query, self._query.request
        selection = query.selection
        namespace, key = _key(query)
        requirements = (*selection.requirements, *_label_requirements(query))
        since = await self._complete_since()
        if key is None and await self._candidates(namespace, requirements) > MAX_EXAMINED:
            raise QueryTooLarge("too many objects")
        examiner = Examiner(query, self.order)
        pages = request.backend.store.scan(
            request.tenant,
            request.served.resource_name,
            namespace=namespace,
            at=query.at,
            requirements=requirements,
            key=key,
            words=self._words,
            labels=selection.labels_needed,
        )
        hits: list[Hit] = []
        fresh = True
        async with aclosing(pages):
            async for page in pages:
                if fresh:
                    request.check_fresh(page.state)
                fresh = False
                self.revision = page.revision
                hits += await examiner.hits(page.rows)
        if since is not None and (self.revision < since or await self._complete_since() != since):
            raise IndexNotReady(since)
        examiner.note_spent()
        self.total = len(hits)
        yield _behind(hits, query)

    async def _candidates(self, namespace: str | None, requirements: Sequence[Requirement]) -> int:
        """Counts the objects to examine, up to one more than the limit."""
        reads, tenant = self._request.backend.store.index_reads, self._request.tenant
        resource, limit = self._request.served.resource_name, MAX_EXAMINED + 1
        if self._words is not None:
            return await reads.count_words(tenant, resource, namespace, self._words, limit)
        return await reads.count_up_to(tenant, resource, namespace, requirements, limit)

    async def _complete_since(self) -> int | None:
        """Returns the revision from which on the index of words is complete; None if none is needed.

        It changes only when a write fails to maintain the index. Raises IndexNotReady.
        """
        if self._words is None:
            return None
        request = self._request
        ready = await request.backend.store.indexing.ready(request.tenant, request.served.resource_name)
        if self._words.number not in ready:
            raise IndexNotReady(None)
        return ready[self._words.number]

    async def count(self, limit: int) -> int | None:
        return self.total

    @property
    def _request(self) -> ResourceRequest:
        return self._query.request


def _behind(hits: list[Hit], query: ListQuery) -> list[Hit]:
    """Returns hits in order, from the position of the query on."""
    hits.sort(key=lambda hit: hit.place)
    if query.position is None:
        return hits
    start = (query.position[0], query.position[1].encode())
    return [hit for hit in hits if hit.place > start]


class ByIndex:
    """Reads ranges of a declared index."""

    name: Final = "index"

    def __init__(self, query: ListQuery, plan: Plan) -> None:
        self._query = query
        self._plan = plan
        self.order: Order = (plan.order or ()) if plan.streams else (query.order or ())
        self.revision = 0
        self.total: int | None = None
        selection = query.selection
        self._has_overflow = False
        # Whether the index alone decides which objects match.
        self._is_plain = (
            plan.covers and not selection.requirements and selection.fields.accepts is None
            and selection.fields.shows is None
        )  # fmt: skip

    @property
    def is_streamed(self) -> bool:
        """Whether the number of matches is unlimited: nothing but matches is read."""
        return self._plan.streams and self._is_plain

    async def count(self, limit: int) -> int | None:
        """Returns the number of matches at the revision; None if counting would have to examine objects."""
        if self.total is not None or not self._is_plain or self._has_overflow:
            return self.total
        read = replace(self._read(self._plan.segments, None), at=self.revision)
        return await self._request.backend.store.index_reads.count(self._request.tenant, read, limit)

    async def batches(self) -> AsyncGenerator[Sequence[Hit], None]:
        examiner = Examiner(self._query, self.order, self._query.selection.requirements)
        if self._plan.streams:
            async for hits in self._read_in_order(examiner):
                yield hits
            examiner.note_spent()
            return
        all_hits: list[Hit] = []
        counted = False
        async for page in self._pages(self._plan.segments, None, _ROWS):
            if page.more and not counted:
                counted = True
                read = replace(self._read(self._plan.segments, None), at=self.revision)
                store = self._request.backend.store
                if await store.index_reads.count(self._request.tenant, read, MAX_EXAMINED + 1) > MAX_EXAMINED:
                    raise QueryTooLarge("too many objects")
            all_hits += await examiner.hits([one.row for one in page.rows])
        all_hits += await self._overflowing(examiner)
        examiner.note_spent()
        self.total = len(all_hits)
        yield _behind(all_hits, self._query)

    async def _read_in_order(self, examiner: Examiner) -> AsyncGenerator[Sequence[Hit], None]:
        others: list[Hit] | None = None
        for group in self._groups():
            async for page in self._pages(*group, self._page_size()):
                if others is None:
                    others = _behind(await self._overflowing(examiner), self._query)
                hits = await self._hits(page, examiner)
                if others:
                    last = (self._position(page.rows[-1].entry), page.rows[-1].row.key.encode()) if page.rows else None
                    before = [hit for hit in others if last is not None and hit.place < last]
                    others = others[len(before) :]
                    hits = sorted([*hits, *before], key=lambda hit: hit.place)
                yield hits
        if others:
            yield others

    async def _hits(self, page: IndexPage, examiner: Examiner) -> list[Hit]:
        if not self._is_plain:
            return await examiner.hits([one.row for one in page.rows])
        positions = {one.row.key: self._position(one.entry) for one in page.rows}
        rows, texts = await readable(self._request, [one.row for one in page.rows])
        return [Hit(positions[row.key], row.key, row, text) for row, text in zip(rows, texts, strict=True)]

    async def _overflowing(self, examiner: Examiner) -> list[Hit]:
        """Returns hits among the objects that the index cannot hold."""
        if not self._has_overflow:
            return []
        entry = self._plan.overflow
        hits: list[Hit] = []
        async for page in self._pages((Segment(entry, entry + b"\x00"),), None, _ROWS):
            hits += await examiner.hits([one.row for one in page.rows])
        return hits

    def _groups(self) -> list[tuple[Sequence[Segment], tuple[bytes, ObjectKey] | None]]:
        """Returns the groups of segments, which are read one after the other, and where each begins."""
        plan, start = self._plan, self._query.position
        if plan.order is None:
            return [(plan.segments, (b"", start[1]) if start is not None else None)]
        if start is None:
            return [((segment,), None) for segment in plan.segments]
        after = (plan.prefix + self._entry(start[0]), start[1])
        at = next((i for i, segment in enumerate(plan.segments) if segment.start <= after[0] < segment.end), None)
        if at is None:
            # The token is forged, or its order has changed: begin where it would be.
            at = 0 if after[0] < plan.segments[0].start or plan.segments[0].descending else len(plan.segments)
        return [((s,), after if i == at else None) for i, s in enumerate(plan.segments) if i >= at]

    def _position(self, entry: bytes) -> bytes:
        """Returns an index entry's position in the order of the list."""
        plan = self._plan
        if plan.order is None:
            return b""
        component = entry[len(plan.prefix) :]
        if not plan.is_reversed:
            return component
        return invert(component) if plan.order[0].descending else revert(component)

    def _entry(self, position: bytes) -> bytes:
        """Returns the part of an index entry after the prefix, for a position."""
        plan = self._plan
        if not plan.is_reversed or plan.order is None:
            return position
        return revert(position) if plan.order[0].descending else invert(position)

    async def _pages(
        self, segments: Sequence[Segment], after: tuple[bytes, ObjectKey] | None, size: int
    ) -> AsyncGenerator[IndexPage, None]:
        """Yields pages of the index, all at one revision."""
        request = self._request
        while True:
            page = await request.backend.store.index_reads.page(request.tenant, self._read(segments, after), size)
            if not self.revision:
                request.check_fresh(page.state)
                self.revision = page.revision
                self._has_overflow = page.has_overflow
            yield page
            if not page.more:
                return
            after = (page.rows[-1].entry, page.rows[-1].row.key)
            size = min(2 * size, _ROWS)

    def _read(self, segments: Sequence[Segment], after: tuple[bytes, ObjectKey] | None) -> IndexRead:
        plan, query = self._plan, self._query
        return IndexRead(
            self._request.served.resource_name,
            plan.index.number,
            plan.overflow,
            [Span(segment.start, segment.end) for segment in segments],
            self._request.namespace or None,
            self.revision or query.at,
            after,
            segments[0].descending,
            plan.streams and plan.order is None,
        )

    def _page_size(self) -> int:
        """Returns the size of the first page: the limit suffices if the index alone decides, and often otherwise."""
        query = self._query
        return min(query.limit + query.offset + 1, _ROWS) if query.limit else _ROWS

    @property
    def _request(self) -> ResourceRequest:
        return self._query.request


def _key(query: ListQuery) -> tuple[str | None, ObjectKey | None]:
    """Returns the only namespace and key that can match, if the query names them."""
    selection, request = query.selection, query.request
    served = request.served
    namespace = request.namespace or _single(query, NAMESPACE)
    if selection.fields.key is not None:
        return namespace or None, selection.fields.key
    name = _single(query, NAME)
    if name and (namespace or not served.namespaced):
        return namespace or None, served.key(namespace, name)
    return namespace or None, None


def _single(query: ListQuery, path: str) -> str:
    for one in query.constraints.per_field:
        if isinstance(one, Points) and one.field.text == path and one.texts and len(one.texts) == 1:
            return one.texts[0]
    return ""


def _label_requirements(query: ListQuery) -> list[Requirement]:
    """Returns the filter's requirements for labels, which are always indexed."""
    return [
        Requirement(one.field.path[2], SelectorOperator.IN, one.texts)
        for one in query.constraints.per_field
        if isinstance(one, Points) and one.field.path[:2] == _LABELS and len(one.field.path) == 3 and one.texts
    ]
