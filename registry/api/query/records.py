"""Records, from which the groups of a Query are made: read from the entries of an index, or from matching objects.

    ByEntries    one statement over an index that has every field of the question, or over the keys; no object is read
    ByObjects    the matching objects, as a list with that filter finds them; at most MAX_EXAMINED

A record has the keys and inputs of one or more objects. All records are of one revision.
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
from registry.api.query.parsing import ListQuery, Spent, parse_query
from registry.api.query.questions import Input, Question
from registry.api.query.reading import MAX_EXAMINED
from registry.api.verbs.readable import readable
from registry.codec.stored import decode_stored
from registry.flowcontrol.evaluation import evaluate
from registry.query.constraints import Constraint, Points
from registry.query.covering import Covering, covering, covering_suggestion
from registry.query.fields import path_text
from registry.query.indexes import MAX_FIELDS
from registry.query.planner import NAMESPACE
from registry.query.values import Value
from registry.store.errors import IndexNotReady, QueryTooLarge
from registry.store.reads.grouped import MAX_ENTRIES, MAX_OBJECTS, EntryCount, EntryCounts, GroupRead, IndexSpans
from registry.store.reads.indexed import Span

AT_A_TIME: Final = 50
_ENTRIES_AT_A_TIME: Final = 500


class Record(NamedTuple):
    """`weight` objects that have these values."""

    keys: tuple[Value | None, ...]
    inputs: tuple[Value | None, ...]
    weight: int = 1


def record_of(question: Question, obj: Mapping[str, Any], other: Mapping[str, Any]) -> Record:
    """Returns the record of an object and the one that it is joined with."""
    return Record(
        tuple([one.of(obj, other) for one in question.keys]),
        tuple([None if one is None else one.of(obj, other) for one in question.inputs]),
    )


def list_query(question: Question, namespace: str, spent: Spent, at: int) -> ListQuery:
    """Returns the list of a question's objects in a namespace, "" for all; `at` 0 is now."""
    options = ListOptions(label_selector=question.label_selector, filter=question.filter)
    return replace(parse_query(question.target.within(namespace), options), at=at or None, spent=spent)


# --- entries


class ByEntries:
    """Use `of` to construct one."""

    label = "entries"

    def __init__(self, question: Question, plan: Covering | None, counts: EntryCounts) -> None:
        self._question = question
        self._plan = plan
        self._counts = counts
        self.revision = counts.state.revision

    @classmethod
    async def of(cls, question: Question) -> ByEntries | None:
        """Returns None if no index alone answers the question, or none is ready. Raises TooMuchToRead."""
        query = list_query(question, question.target.namespaces[0], Spent(), 0)
        request = query.request
        planned = _plan(question, query)
        if planned is None:
            return None
        read, plan = planned
        try:
            counts = await request.backend.store.group_reads.counts(request.tenant, read)
        except IndexNotReady:
            request.build_indexes()
            return None
        except QueryTooLarge as error:
            message = f"the query would read more than {MAX_OBJECTS} entries of an index, or {MAX_ENTRIES} that differ"
            raise TooMuchToRead(f"{message}: select less") from error
        request.check_fresh(counts.state)
        return None if counts.has_overflow else cls(question, plan, counts)

    async def batches(self) -> AsyncGenerator[Sequence[Record], None]:
        counts = self._counts.counts
        for start in range(0, len(counts), _ENTRIES_AT_A_TIME):
            some = counts[start : start + _ENTRIES_AT_A_TIME]
            yield await evaluate(partial(self._records, some), repeatable=True)

    def _records(self, some: Sequence[EntryCount]) -> list[Record]:
        return [record for one in some if (record := self._record(one))]

    def _record(self, one: EntryCount) -> Record | None:
        question, plan = self._question, self._plan
        components = {} if plan is None else plan.components(one.entry)
        if components is None:
            return None

        def value(wanted: Input | None) -> Value | None:
            if wanted is None:
                return None
            path = wanted.reading.field.path
            return one.namespace if path == NAMESPACE else wanted.reading.of_component(components[path])

        return Record(tuple(map(value, question.keys)), tuple(map(value, question.inputs)), one.objects)


def _plan(question: Question, query: ListQuery) -> tuple[GroupRead, Covering | None] | None:
    """Returns what to read, and by which index; None in its place if the keys suffice."""
    served, paths = query.request.served, question.paths
    filters = query.constraints
    if question.join is not None or query.selection.requirements or not filters.exact:
        return None
    if query.request.backend.store.indexing.seals(served.resource_name) and (
        filters.per_field or set(paths) - {NAMESPACE}
    ):
        return None
    constraints: Sequence[Constraint] = filters.per_field
    within: Sequence[str] | None = None if question.target.namespaces == ("",) else question.target.namespaces
    if served.namespaced:
        constraints, within = _without_namespace(constraints, within)
    elif NAMESPACE in paths:
        return None
    if not constraints and all(path == NAMESPACE for path in paths):
        return GroupRead(served.resource_name, None, within, NAMESPACE in paths), None
    indexes = [index for index in served.extraction.indexes.indexes if served.version.name in index.versions]
    plan = covering(indexes, constraints, paths, exact=True)
    if plan is None:
        return None
    spans = IndexSpans(plan.index.number, plan.overflow, [Span(one.start, one.end) for one in plan.segments])
    return GroupRead(served.resource_name, spans, within, NAMESPACE in paths), plan


def _without_namespace(
    constraints: Sequence[Constraint], within: Sequence[str] | None
) -> tuple[Sequence[Constraint], Sequence[str] | None]:
    """Removes the constraints of the namespace, and returns the others and the namespaces that remain."""
    others = [one for one in constraints if one.field.path != NAMESPACE]
    for one in constraints:
        if one.field.path == NAMESPACE:
            if not isinstance(one, Points) or one.texts is None:
                return constraints, within  # no index has the namespace, so objects are read
            within = [name for name in one.texts if within is None or name in within]
    return others, within


# --- objects


class ByObjects:
    label = "objects"

    def __init__(self, question: Question) -> None:
        self._question = question
        self._spent = Spent()
        self.revision = 0

    async def batches(self) -> AsyncGenerator[Sequence[Record], None]:
        """Yields records. Raises TooMuchToRead, RevisionExpired, and 400 if the filter costs too much."""
        async with aclosing(self.texts()) as parts:
            async for some in parts:
                yield await evaluate(partial(self._records, some), sum(map(len, some)), repeatable=True)

    def _records(self, texts: Sequence[str]) -> list[Record]:
        question, hidden = self._question, self._question.target.hidden
        return [record_of(question, visible(decode_stored(text), hidden), {}) for text in texts]

    async def texts(self) -> AsyncGenerator[Sequence[str], None]:
        """Yields the matching objects as JSON, a few at a time."""
        question = self._question
        count = 0
        for namespace in question.target.namespaces:
            query = list_query(question, namespace, self._spent, self.revision)
            try:
                async with aclosing(matching(query)) as parts:
                    async for part in parts:
                        self.revision = part.revision
                        count += len(part.rows)
                        if count > MAX_EXAMINED:
                            raise refusal(question, query)
                        _, texts = await readable(query.request, part.rows)
                        for start in range(0, len(texts), AT_A_TIME):
                            yield texts[start : start + AT_A_TIME]
            except TooMuchToRead as error:
                if error.unfinished:
                    raise
                raise refusal(question, query, error) from error


def refusal(question: Question, query: ListQuery, otherwise: TooMuchToRead | None = None) -> TooMuchToRead:
    """Returns a refusal that names the index that would answer; without one, `otherwise`."""
    served, constraints = query.request.served, query.constraints
    too_many = f"the query would look into more than {MAX_EXAMINED} objects"
    if question.join is None and constraints.exact and not query.selection.requirements and served.definition.revision:
        paths = covering_suggestion(constraints.per_field, question.paths)
        declarable = not served.converts_contents and not any(one.field.is_array for one in constraints.per_field)
        if 0 < len(paths) <= MAX_FIELDS and declarable:
            wanted = ",".join(map(path_text, paths))
            return TooMuchToRead(
                f'{too_many}: declare an index in the definition, with the annotation query.registry/index: "{wanted}"'
            )
    return otherwise or TooMuchToRead(f"{too_many}: select fewer by a filter, by namespaces or labels")
