"""Answers Queries: groups of the selected objects, exact at one revision, which the answer names.

A query that would have to read too much is refused, with the index to declare (records.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from registry.api.errors import bad_request, expired
from registry.api.query.joining import ByPairs
from registry.api.query.listing import QUERIES, TooMuchToRead
from registry.api.query.questions import Question, parse_question
from registry.api.query.reading import MAX_SECONDS
from registry.api.query.records import ByEntries, ByObjects, Record
from registry.api.request import ResourceRequest
from registry.api.served import Object
from registry.codec.json_encode import encode_json_text
from registry.flowcontrol.evaluation import evaluate
from registry.query.aggregation import AggregateError, Groups
from registry.query.language import FilterTooExpensive
from registry.query.rows import RowPage, page_of
from registry.store.errors import RevisionExpired

# The limit on the characters of an answer's rows.
MAX_ANSWER: Final = 4 << 20
_READS: Final = "query.registry/reads"
_TOO_EXPENSIVE: Final = "evaluating the query costs more than it may: simplify it, or select less"


async def answer_query(request: ResourceRequest, spec: Object) -> Object:
    """Returns the status of a Query. Raises 400, 403, 410 and 422."""
    question = await parse_question(request, spec)
    _annotate(request, question)
    try:
        source = await _source(question)
        groups = Groups([one.reading for one in question.keys], question.aggregates)
        # Processor time of keys and aggregates; the filter's is limited where it is evaluated.
        spent = 0.0
        async for records in source.batches():
            spent += await evaluate(partial(_add, groups, records))
            if spent > MAX_SECONDS:
                raise FilterTooExpensive
        page = await evaluate(partial(_page, request, question, groups), repeatable=True)
    except TooMuchToRead:
        QUERIES.labels("none").inc()
        raise
    except (AggregateError, FilterTooExpensive) as error:
        raise bad_request(str(error) or _TOO_EXPENSIVE) from error
    except RevisionExpired as error:
        raise expired("The objects have changed too often while the query was answered: ask again.") from error
    QUERIES.labels(source.label).inc()
    return {
        "resourceVersion": str(source.revision),
        "columns": [{"name": column.name, "type": column.type.value} for column in question.columns],
        "rows": page.rows,
        "totalRows": page.total,
    }


async def _source(question: Question) -> ByEntries | ByObjects | ByPairs:
    if question.join is not None:
        return ByPairs(question, question.join)
    return await ByEntries.of(question) or ByObjects(question)


def _add(groups: Groups, records: Sequence[Record]) -> float:
    """Adds records to groups, and returns the seconds that it took. Raises AggregateError."""
    began = time.thread_time()
    for record in records:
        groups.add(*record)
    return time.thread_time() - began


def _page(request: ResourceRequest, question: Question, groups: Groups) -> RowPage:
    """Returns a page of rows. Raises AggregateError, FilterTooExpensive, and 400 if the rows are too long."""
    page = page_of(
        groups,
        question.columns,
        len(question.keys),
        question.order,
        having=question.having,
        now=request.context.now,
        offset=question.offset,
        limit=question.limit,
        max_seconds=MAX_SECONDS,
    )
    length = 0
    for row in page.rows:
        length += len(encode_json_text(row))
        if length > MAX_ANSWER:
            raise bad_request(f"the rows would have more than {MAX_ANSWER} characters: give a lower limit")
    return page


def _annotate(request: ResourceRequest, question: Question) -> None:
    """Records what was read in the audit log: `backups.demo.example.com in a,b`."""
    targets = [question.target] if question.join is None else [question.target, question.join.target]
    read = []
    for target in targets:
        where = f" in {','.join(target.namespaces)}" if target.namespaces != ("",) else ""
        read.append(f"{target.served.resource}{where}")
    request.context.annotate(_READS, "; ".join(read))
