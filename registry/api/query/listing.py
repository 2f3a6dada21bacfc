"""Answers a query: a page, or everything if it has no limit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeVar

from prometheus_client import Counter

from registry.api.answers import ListAnswer, one_chunk
from registry.api.errors import StatusError, bad_request, expired
from registry.api.freshness import wait_for_revision
from registry.api.list_options import ListOptions
from registry.api.query.parsing import ListQuery, parse_query
from registry.api.query.reading import MAX_COUNTED, MAX_ESTIMATED, MAX_EXAMINED, ByIndex, Hit, Scan
from registry.api.request import ResourceRequest
from registry.api.verbs.selection import list_revision
from registry.flowcontrol.evaluation import evaluate
from registry.query.encoding import OVERFLOW
from registry.query.ordering import order_text
from registry.query.planner import plans, suggestion
from registry.query.tokens import Token, encode_token
from registry.store.bounds import READ_BYTES
from registry.store.errors import IndexNotReady, QueryTooLarge, RevisionExpired
from registry.store.reads.words import Words
from registry.store.types import Row

_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)

Source = ByIndex | Scan
T = TypeVar("T")

QUERIES: Final = Counter("registry_queries", "Lists by filter or order, by what answered them.", ["by"])


class TooMuchToRead(StatusError):
    """400. `unfinished`: an index that would answer is being built."""

    def __init__(self, message: str, *, unfinished: bool = False) -> None:
        super().__init__(400, "BadRequest", message)
        self.unfinished = unfinished


async def query_list(request: ResourceRequest, options: ListOptions) -> ListAnswer:
    """Lists with a filter, an order, an offset or a count."""
    query = await evaluate(partial(parse_query, request, options), repeatable=True)
    if wanted := list_revision(options.resource_version):
        await wait_for_revision(request, wanted)
    try:
        return await _answer(query)
    except RevisionExpired as error:
        if query.token is not None:
            raise expired(_EXPIRED) from error
        raise expired(
            f"The resourceVersion for the provided list is too old: {error.revision} ({error.compact_revision})"
        ) from error


async def _answer(query: ListQuery) -> ListAnswer:
    def read(source: Source) -> Awaitable[ListAnswer]:
        return _page(query, source) if query.limit or not source.is_streamed else _stream(query, source)

    try:
        source, answer = await _from_best_source(query, read)
    except TooMuchToRead:
        QUERIES.labels("none").inc()
        raise
    QUERIES.labels(source.name).inc()
    return answer


async def _from_best_source(query: ListQuery, read: Callable[[Source], Awaitable[T]]) -> tuple[Source, T]:
    """Returns the first source that can answer, and what is read from it. Raises TooMuchToRead if none can."""
    unfinished = False
    for source in sources(query):
        try:
            return source, await read(source)
        except IndexNotReady as error:
            if error.since is None:
                unfinished = True
                query.request.build_indexes()
        except QueryTooLarge:
            continue
    raise _refusal(query, unfinished=unfinished)


def sources(query: ListQuery) -> list[Source]:
    """Returns all sources that may answer, the best first."""
    request = query.request
    served = request.served
    scans: list[Source] = [Scan(query)]
    if query.selection.labels_needed:
        scans.append(Scan(replace(query, selection=query.selection.by_text())))
    if query.selection.fields.key is not None or request.backend.store.indexing.seals(served.resource_name):
        return scans
    indexes = [index for index in served.extraction.indexes.indexes if served.version.name in index.versions]
    candidates = plans(
        indexes,
        query.constraints.per_field,
        query.order,
        exact=query.constraints.exact,
        namespace=request.namespace if served.namespaced else "",
    )
    by_words = [Scan(query, words)] if (words := _words(query)) is not None else []
    return [*by_words, *(ByIndex(query, plan) for plan in candidates), *scans]


def _words(query: ListQuery) -> Words | None:
    """Returns the words of the full-text search, if its index covers the version."""
    served, text = query.request.served, query.constraints.text
    index = served.extraction.indexes.text
    if text is None or index is None or served.version.name not in index.versions:
        return None
    return Words(index.number, text.lookup, index.id + OVERFLOW)


async def matching(query: ListQuery) -> AsyncGenerator[Matching, None]:
    """Yields all matches of an unlimited query, at one revision, in at least one batch. Raises 400 as a list does."""

    async def begin(source: Source) -> tuple[Sequence[Hit], AsyncGenerator[Sequence[Hit], None]]:
        batches = source.batches()
        if source.is_streamed:
            return await anext(batches, ()), batches
        async with aclosing(batches):
            return [hit for batch in [part async for part in batches] for hit in batch], batches

    source, (first, batches) = await _from_best_source(query, begin)
    yield Matching([hit.row for hit in first], source.revision, source.is_streamed)
    async with aclosing(batches):
        async for batch in batches:
            yield Matching([hit.row for hit in batch], source.revision, True)


class Matching(NamedTuple):
    """Rows that match, at one revision, and whether others may follow."""

    rows: Sequence[Row]
    revision: int
    more: bool


class _PageRead(NamedTuple):
    """`hits` are those of the page, and one more if there are more of the `wanted` ones; `skipped` those before."""

    hits: list[Hit]
    skipped: int
    wanted: int | None


async def _read_page(query: ListQuery, source: Source) -> _PageRead:
    wanted = query.limit or None
    counts_all = query.count == "exact" and query.token is None and not source.is_streamed
    hits: list[Hit] = []
    skipped = seen = size = 0
    async with aclosing(source.batches()) as batches:
        async for batch in batches:
            skips = min(query.offset - skipped, len(batch))
            skipped += skips
            seen += len(batch)
            left = len(batch) if wanted is None else max(wanted + 1 - len(hits), 0)
            hits += batch[skips : skips + left]
            size += sum([len(hit.text) for hit in batch[skips : skips + left]])
            if wanted is not None and size > READ_BYTES and len(hits) > 1:
                wanted = min(wanted, len(hits) - 1)  # a page of large objects ends early
            if wanted is not None and len(hits) > wanted and not counts_all:
                break
        else:
            if counts_all:
                source.total = seen
    return _PageRead(hits, skipped, wanted)


async def _page(query: ListQuery, source: Source) -> ListAnswer:
    """Returns a page of `limit` objects, or all matches without a limit, read before the answer begins."""
    hits, skipped, wanted = await _read_page(query, source)
    more = wanted is not None and len(hits) > wanted
    if more:
        del hits[wanted:]
    before = query.token.seen if query.token is not None else skipped
    total = await _total(query, source, before + len(hits), more=more)
    token = ""
    if more:
        last = hits[-1]
        order = order_text(source.order)
        token = encode_token(
            Token(query.digest, source.revision, order, last.position, last.key, before + len(hits), total)
        )
    remaining = max(total - before - len(hits), 0) if total is not None and more else None
    served = query.request.served
    count = total if query.count else None
    return ListAnswer(served, source.revision, one_chunk([hit.text for hit in hits]), token, remaining, count)


async def _stream(query: ListQuery, source: Source) -> ListAnswer:
    """Streams all matches of a query whose source reads nothing but matches."""
    batches = source.batches()
    first = await anext(batches, ())
    total = await _total(query, source, 0, more=True)

    async def chunks() -> AsyncGenerator[Sequence[str], None]:
        async with aclosing(batches):
            skip = query.offset
            batch: Sequence[Hit] | None = first
            while batch is not None:
                texts = [hit.text for hit in batch[skip:]]
                skip = max(skip - len(batch), 0)
                if texts:
                    yield texts
                batch = await anext(batches, None)

    return ListAnswer(query.request.served, source.revision, chunks(), "", None, total)


async def _total(query: ListQuery, source: Source, seen: int, *, more: bool) -> int | None:
    """Returns the total number of objects; None if it was not requested and is not known."""
    if query.token is not None and query.token.total is not None:
        return query.token.total
    if not more and query.token is None:
        return seen if query.limit or not source.is_streamed else None
    if not query.count:
        return source.total
    limit = MAX_COUNTED if query.count == "exact" else MAX_ESTIMATED
    counted = await source.count(limit)
    if counted is None and query.count == "exact":
        raise QueryTooLarge("cannot be counted")
    if counted is not None and counted >= limit and query.count == "exact":
        raise bad_request(f"more than {limit} objects match: ask for count=estimated")
    return counted


def _refusal(query: ListQuery, *, unfinished: bool) -> TooMuchToRead:
    request = query.request
    too_many = f"the query would look into more than {MAX_EXAMINED} objects"
    if query.constraints.text is not None and not unfinished:
        return TooMuchToRead(f"{too_many} that have the words: search for rarer ones, or select fewer by namespace")
    if unfinished:
        return TooMuchToRead(f"{too_many}: the index that answers it is being built, ask again later", unfinished=True)
    wanted = suggestion(query.constraints.per_field, query.order, request.namespace)
    served = request.served
    if served.converts_contents and not served.is_storage:
        storage = served.definition.storage_version
        return TooMuchToRead(f"{too_many}: ask for the version {storage}, which objects are stored and indexed at")
    if wanted and served.definition.revision:
        return TooMuchToRead(
            f'{too_many}: declare an index in the definition, with the annotation query.registry/index: "{wanted}"'
        )
    if wanted and served.translation is None:
        name = served.resource_name
        return TooMuchToRead(
            f'{too_many}: the server can index it with the setting --builtin-indexes "{name}={wanted}"'
        )
    return TooMuchToRead(f"{too_many}: select fewer by namespace or labels")
