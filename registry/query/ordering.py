"""The order of a list: `orderBy=spec.size desc,metadata.name`, as in AIP-132.

The order is made total by namespace and name, ascending. Absent values come last, whatever the direction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.query.encoding import component_of, invert
from registry.query.fields import FieldPathError, QueryField, parse_path, path_text, query_schema, resolve, split
from registry.schema.model import Structural

MAX_TERMS: Final = 8
_TERM: Final = re.compile(r"\s*(\S+?)(?:\s+(asc|desc))?\s*", re.IGNORECASE)


class OrderError(ValueError):
    """The text says what is wrong with an order, for the client."""


@dataclass(frozen=True, slots=True)
class OrderTerm:
    field: QueryField
    descending: bool = False


Order = tuple[OrderTerm, ...]


def parse_order(text: str, schema: Structural) -> Order:
    """Parses an order. Raises OrderError."""
    terms: list[OrderTerm] = []
    parts = split(text, ",")
    if len(parts) > MAX_TERMS:
        raise OrderError(f"orderBy: more than {MAX_TERMS} fields")
    for part in parts:
        match = _TERM.fullmatch(part)
        if match is None:
            raise OrderError(f'orderBy: "{part.strip()[:200]}" is not a field, alone or with asc or desc behind it')
        try:
            field = resolve(query_schema(schema), parse_path(match[1]))
        except FieldPathError as error:
            raise OrderError(f"orderBy: {error}") from error
        if field.is_array:
            raise OrderError(f'orderBy: "{field.text}" has many values')
        terms.append(OrderTerm(field, (match[2] or "").lower() == "desc"))
    if len({term.field.path for term in terms}) < len(terms):
        raise OrderError("orderBy: a field is named twice")
    return tuple(terms)


def order_text(order: Order) -> str:
    return ",".join(path_text(term.field.path) + (" desc" if term.descending else "") for term in order)


def position(order: Sequence[OrderTerm], obj: Any) -> bytes:
    """Returns bytes that compare as the objects do in this order."""
    return b"".join([place(term, component_of(term.field, obj)) for term in order])


def place(term: OrderTerm, component: bytes) -> bytes:
    return invert(component) if term.descending else component
