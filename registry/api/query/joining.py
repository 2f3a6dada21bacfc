"""Joins objects with their owners or with the objects that they refer to, all as of one revision.

ByObjects finds the objects first. What they refer to is then looked up by key or, if there are many keys, found among
all objects of the other resource, within the limit of a query. Objects outside of the query's namespaces do not
match.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from registry.api.list_options import ListOptions
from registry.api.query.filters import visible
from registry.api.query.listing import TooMuchToRead, matching
from registry.api.query.parsing import Spent, parse_query
from registry.api.query.questions import Join, Question
from registry.api.query.reading import MAX_EXAMINED, MAX_EXAMINED_BYTES
from registry.api.query.records import AT_A_TIME, ByObjects, Record, record_of
from registry.api.verbs.readable import readable
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import evaluate
from registry.query.references import Referent, owners, referents
from registry.store.types import Row

# Limits of one query: pairs, and other objects that are looked up one by one.
MAX_PAIRS: Final = 20_000
MAX_LOOKUPS: Final = 50

Object = Mapping[str, Any]


class _Other(NamedTuple):
    uid: str
    text: str


class ByPairs:
    label = "join"

    def __init__(self, question: Question, join: Join) -> None:
        self._question = question
        self._join = join
        self._objects = ByObjects(question)
        # By namespace and name.
        self._others: dict[tuple[str, str], _Other] = {}
        self._bytes = 0

    @property
    def revision(self) -> int:
        return self._objects.revision

    async def batches(self) -> AsyncGenerator[Sequence[Record], None]:
        """Yields the records of pairs. Raises TooMuchToRead, FilterTooExpensive, RevisionExpired."""
        texts: list[str] = []
        wanted: list[Sequence[Referent]] = []
        pairs = 0
        async with aclosing(self._objects.texts()) as parts:
            async for some in parts:
                referents = await evaluate(partial(self._referents, some), sum(map(len, some)), repeatable=True)
                texts += some
                wanted += referents
                pairs += sum(map(len, referents))
                if pairs > MAX_PAIRS:
                    raise TooMuchToRead(f"the join would have more than {MAX_PAIRS} pairs: select less by the filter")
        await self._read_others({(one.namespace, one.name) for several in wanted for one in several})
        for start in range(0, len(texts), AT_A_TIME):
            some, referents = texts[start : start + AT_A_TIME], wanted[start : start + AT_A_TIME]
            yield await evaluate(partial(self._records, some, referents), sum(map(len, some)), repeatable=True)

    def _referents(self, texts: Sequence[str]) -> list[Sequence[Referent]]:
        """Returns what each object refers to, within the namespaces of the query."""
        target, reference = self._join.target, self._join.reference
        served = target.served
        result: list[Sequence[Referent]] = []
        for text in texts:
            obj = visible(decode_stored(text), self._question.target.hidden)
            several = (
                owners(obj, served.definition.group, served.kind.name, namespaced=served.namespaced)
                if reference is None
                else referents(reference, obj, namespaced=served.namespaced)
            )
            result.append([one for one in several if target.reads(one.namespace)])
        return result

    def _records(self, texts: Sequence[str], wanted: Sequence[Sequence[Referent]]) -> list[Record]:
        """Returns the records of objects and their matches. Raises FilterTooExpensive."""
        question, join = self._question, self._join
        now = join.target.request.context.now
        decoded: dict[tuple[str, str], Object] = {}
        records: list[Record] = []
        for text, several in zip(texts, wanted, strict=True):
            obj = visible(decode_stored(text), question.target.hidden)
            matched = False
            for one in several:
                other = self._referent_of(one, decoded)
                if other is not None and (join.filter is None or join.filter.holds(now, obj, other)):
                    matched = True
                    records.append(record_of(question, obj, other))
            if not matched and join.keeps_unmatched:
                records.append(record_of(question, obj, {}))
        return records

    def _referent_of(self, one: Referent, decoded: dict[tuple[str, str], Object]) -> Object | None:
        key = (one.namespace, one.name)
        known = self._others.get(key)
        if known is None or one.uid not in ("", known.uid):
            return None
        if key not in decoded:
            decoded[key] = visible(decode_stored(known.text), self._join.target.hidden)
        return decoded[key]

    # --- the other resource

    async def _read_others(self, wanted: set[tuple[str, str]]) -> None:
        if len(wanted) <= MAX_LOOKUPS:
            for namespace, name in sorted(wanted):
                await self._look_up(namespace, name)
            return
        target, spent = self._join.target, Spent()
        for namespace in target.namespaces:
            query = parse_query(target.within(namespace), ListOptions())
            try:
                async with aclosing(matching(replace(query, at=self.revision, spent=spent))) as parts:
                    async for part in parts:
                        await self._keep([row for row in part.rows if _identity(row) in wanted])
            except TooMuchToRead as error:
                raise TooMuchToRead(
                    f"the query refers to more than {MAX_LOOKUPS} {target.served.resource}, of which there are more"
                    f" than {MAX_EXAMINED}: select less by the filter or by namespaces"
                ) from error

    async def _look_up(self, namespace: str, name: str) -> None:
        request = self._join.target.request
        pages = request.backend.store.scan(
            request.tenant, request.served.resource_name, at=self.revision, key=request.served.key(namespace, name)
        )
        async with aclosing(pages):
            async for page in pages:
                request.check_fresh(page.state)
                await self._keep(page.rows)

    async def _keep(self, rows: Sequence[Row]) -> None:
        rows, texts = await readable(self._join.target.request, rows)
        for row, text in zip(rows, texts, strict=True):
            self._bytes += len(text)
            self._others[_identity(row)] = _Other(row.uid, text)
        if self._bytes > MAX_EXAMINED_BYTES:
            raise TooMuchToRead(f"the join would read more than {MAX_EXAMINED_BYTES} bytes: select less by the filter")


def _identity(row: Row) -> tuple[str, str]:
    namespace, _, name = row.key.rpartition("/")
    return namespace, name
