"""The rows of an answer: filters groups, sorts them, and returns one page.

An order names columns, `total desc,team`, as that of a list names fields. Absent values come last, whatever the
direction; equal rows are ordered by their keys, so that all pages have one order.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from registry.query.aggregation import Groups
from registry.query.language import Condition, FilterTooExpensive
from registry.query.values import Value, ValueType, to_json

Row = tuple[Value | None, ...]

_TERM: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)(?:\s+(asc|desc))?\s*", re.ASCII | re.IGNORECASE)


class RowsError(ValueError):
    """The text says what is wrong with an order, for the client."""


@dataclass(frozen=True, slots=True)
class RowColumn:
    name: str
    type: ValueType


class ColumnTerm(NamedTuple):
    column: int
    descending: bool = False


class RowPage(NamedTuple):
    """`total` counts the rows of all pages."""

    rows: list[dict[str, Any]]
    total: int


def parse_row_order(text: str, columns: Sequence[RowColumn]) -> tuple[ColumnTerm, ...]:
    """Parses an order of rows. Raises RowsError."""
    names = [column.name for column in columns]
    terms: list[ColumnTerm] = []
    for part in text.split(",") if text.strip() else ():
        match = _TERM.fullmatch(part)
        if match is None:
            raise RowsError(f'"{part.strip()[:200]}" is not a column, alone or with asc or desc behind it')
        if match[1] not in names:
            raise RowsError(f'"{match[1][:200]}" is not a column; these are {", ".join(names)}')
        terms.append(ColumnTerm(names.index(match[1]), (match[2] or "").lower() == "desc"))
    if len({term.column for term in terms}) < len(terms):
        raise RowsError("a column is named twice")
    return tuple(terms)


def page_of(
    groups: Groups,
    columns: Sequence[RowColumn],
    key_count: int,
    order: Sequence[ColumnTerm],
    *,
    having: Condition | None,
    now: datetime.datetime,
    offset: int,
    limit: int,
    max_seconds: float,
) -> RowPage:
    """Returns a page of rows; the first `key_count` columns are the keys. Raises AggregateError, and FilterTooExpensive
    beyond `max_seconds` of processor time."""
    rows: list[Row] = groups.rows()
    if having is not None:
        began = time.thread_time()
        held = []
        for row in rows:
            if time.thread_time() - began > max_seconds:
                raise FilterTooExpensive
            values = {name: value for name, value in _row_json(row, columns, groups).items() if value is not None}
            if having.holds(now, values):
                held.append(row)
        rows = held
    by_keys = [ColumnTerm(i) for i in range(key_count) if i not in {term.column for term in order}]
    for term in reversed([*order, *by_keys]):
        rows.sort(key=_place(term), reverse=term.descending)
    return RowPage([_row_json(row, columns, groups) for row in rows[offset : offset + limit]], len(rows))


def _row_json(row: Row, columns: Sequence[RowColumn], groups: Groups) -> dict[str, Any]:
    return {
        column.name: to_json(column.type, value, binary=i in groups.binary)
        for i, (column, value) in enumerate(zip(columns, row, strict=True))
    }


def _place(term: ColumnTerm) -> Callable[[Row], tuple[bool, Any]]:
    def place(row: Row) -> tuple[bool, Any]:
        value = row[term.column]
        return (value is None) is not term.descending, value

    return place
