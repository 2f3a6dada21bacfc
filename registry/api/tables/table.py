"""Tables: lists as kubectl prints them, made by the server from printer columns.

    table = custom_table(version.columns)
    table.columns                                        # [{"name": "Name", "type": "string", ...}, ...]
    table.row(obj, table_version="v1", include="", now=now)    # {"cells": ["a", 3], "object": {...}}

A Table has columns and cells; those of built-in kinds are in builtin.py. It does not depend on a request, so one is
made for each version of a definition and shared.

Follows apiextensions-apiserver pkg/registry/customresource/tableconvertor, apiserver
pkg/endpoints/handlers/response.go and, for ages, apimachinery pkg/util/duration/duration.go.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.api.tables.jsonpath import MAX_VISITS, TEXT_PER_VISIT, Byte, JsonPathError, compile_path
from registry.budget import Budget, BudgetExceeded
from registry.codec.go_text import go_g, go_json
from registry.codec.go_time import TimeError, canonical_time
from registry.definitions.model import Column

Json = Any
# Returns the cells of an object at a time, the name first.
Cells = Callable[[Mapping[str, Json], float, Budget], list[Json]]

# The maximum number of values that the paths of a whole Table visit, in addition to those granted for each row.
TABLE_VISITS: Final = 2_000_000
ROW_VISITS: Final = 2_000

NAME_DESCRIPTION = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
CREATED_DESCRIPTION = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed "
    "to be set in happens-before order across separate operations. Clients may not set this value. It is represented "
    "in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)

INCLUDE_METADATA, INCLUDE_OBJECT, INCLUDE_NONE = "Metadata", "Object", "None"
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class IncludeObjectError(ValueError):
    """400: an includeObject that is not one of the three. `str()` is the whole message."""


def check_include_object(value: str) -> str:
    """Returns `value` of the query parameter, or Metadata if it is empty. Raises IncludeObjectError."""
    if value in (INCLUDE_METADATA, INCLUDE_OBJECT, INCLUDE_NONE):
        return value
    if not value:
        return INCLUDE_METADATA
    raise IncludeObjectError(
        f"Unable to convert to Table as requested: includeObject: Invalid value: {go_json(value)}: "
        "must be 'Metadata', 'Object', 'None', or empty"
    )


@dataclass(frozen=True, slots=True)
class Table:
    """Column definitions and the cells of an object. `empty_rows` is the rows of an empty table: [] or None.

    Tables with the same `key` have the same columns.
    """

    columns: Sequence[Mapping[str, Json]]
    cells: Cells
    empty_rows: Json = ()
    key: Hashable = ()

    def row(
        self,
        obj: Mapping[str, Json],
        now: float,
        include: str = INCLUDE_METADATA,
        table_version: str = "v1",
        budget: Budget | None = None,
    ) -> dict[str, Json]:
        """Returns the row of a decoded object; `now` is in seconds since 1970, `include` from check_include_object.

        The rows of one Table share `budget`, of TABLE_VISITS units. A cell whose path visits too much is null.
        """
        granted = MAX_VISITS if budget is None else min(MAX_VISITS, budget.left + ROW_VISITS)
        own = Budget(granted)
        cells = self.cells(obj, now, own)
        if budget is not None:
            budget.left = min(TABLE_VISITS, budget.left + ROW_VISITS - (granted - own.left))
        return {"cells": cells, "object": _partial_object(obj, include, table_version)}

    def document(
        self,
        rows: Sequence[Mapping[str, Json]],
        metadata: Mapping[str, Json],
        table_version: str = "v1",
        headers: bool = True,
    ) -> dict[str, Json]:
        """Returns the whole Table. `metadata` is that of the list, or resourceVersion alone for an object.

        Without `headers` (all events of a watch but the first) the columns are null.
        """
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{table_version}",
            "metadata": dict(metadata),
            "columnDefinitions": list(self.columns) if headers else None,
            "rows": list(rows) if rows or self.empty_rows is not None else None,
        }


def partial_object_metadata(obj: Mapping[str, Json], version: str) -> dict[str, Json]:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def _partial_object(obj: Mapping[str, Json], include: str, table_version: str) -> Mapping[str, Json] | None:
    if include == INCLUDE_OBJECT:
        return obj
    if include == INCLUDE_NONE and not _ends_initial_events(obj):
        return None
    return partial_object_metadata(obj, table_version)


def _ends_initial_events(obj: Mapping[str, Json]) -> bool:
    """Whether a watch tells by the metadata of this object that its initial events are complete."""
    annotations = obj["metadata"].get("annotations") or {}
    return bool(annotations.get(INITIAL_EVENTS_END) == "true")


# --- custom resources

_AGE = Column("Age", "date", ".metadata.creationTimestamp", description=CREATED_DESCRIPTION)


def custom_table(columns: Sequence[Column]) -> Table:
    """Returns the Table of a version: Name, then its columns, or Age if it has none.

    A column whose path cannot be parsed leaves only the Name, as in the reference.
    """
    definitions: list[dict[str, Json]] = [column_definition("Name", format="name", description=NAME_DESCRIPTION)]
    cells: list[Callable[[Json, float, Budget], Json]] = []
    try:
        for column in columns or (_AGE,):
            cells.append(_cell(column))
            definitions.append(
                column_definition(
                    column.name,
                    column.type,
                    column.format,
                    column.priority,
                    column.description or f"Custom resource definition column (in JSONPath format): {column.json_path}",
                )
            )
    except JsonPathError:
        # The reference keeps the columns before the broken one.
        del cells[len(definitions) - 1 :]

    def row(obj: Mapping[str, Json], now: float, budget: Budget) -> list[Json]:
        return [obj["metadata"].get("name", ""), *[cell(obj, now, budget) for cell in cells]]

    return Table(definitions, row, key=tuple(columns))


def column_definition(
    name: str, type: str = "string", format: str = "", priority: int = 0, description: str = ""
) -> dict[str, Json]:
    return {"name": name, "type": type, "format": format, "description": description, "priority": priority}


def _cell(column: Column) -> Callable[[Json, float, Budget], Json]:
    """Returns the cell of a column: the first match of its path; null if there is none, or it fails or visits too much.

    A column may spend half of what is left, so that it cannot leave nothing for those after it.
    """
    find = compile_path(column.json_path)
    convert = _CONVERSIONS.get(column.type, _nothing)
    is_text = convert is _text

    def cell(obj: Json, now: float, budget: Budget) -> Json:
        reserve = budget.left - budget.left // 2
        budget.left -= reserve
        try:
            cells = find(obj, budget)
            if is_text and cells:
                _spend_text(cells[0], budget)
        except (JsonPathError, BudgetExceeded):
            return None
        finally:
            budget.left += reserve
        return convert(cells[0], now) if cells else None

    return cell


def _spend_text(value: Json, budget: Budget) -> None:
    """Spends the budget for the text of a value, before it is made. Raises BudgetExceeded."""
    if not isinstance(value, dict | list):
        if type(value) is str and len(value) >= TEXT_PER_VISIT:
            budget.spend(len(value) // TEXT_PER_VISIT)
        return
    stack: list[Json] = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            budget.spend(len(part) // TEXT_PER_VISIT)
        elif isinstance(part, dict):
            budget.spend(1 + len(part) + sum(map(len, part)) // TEXT_PER_VISIT)
            stack.extend(part.values())
        elif isinstance(part, list):
            budget.spend(1 + len(part))
            stack.extend(part)


def _integer(value: Json, now: float) -> int | None:
    if isinstance(value, bool | Byte) or not isinstance(value, int | float):
        return None
    # The result of Go's conversion of a float beyond int64, on the common architectures.
    return int(value) if -(1 << 63) <= value < 1 << 63 else -(1 << 63)


def _number(value: Json, now: float) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool | Byte) else None


def _boolean(value: Json, now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Json, now: float) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    # An integer beyond int64 is a float64 to Go.
    is_float = isinstance(value, float) or (isinstance(value, int) and not -(1 << 63) <= value < 1 << 63)
    return go_g(value) if is_float else go_json(value)


def _date(value: Json, now: float) -> str | None:
    return age(value, now) if isinstance(value, str) else None


def _nothing(value: Json, now: float) -> None:
    return None


_CONVERSIONS: dict[str, Callable[[Json, float], Json]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "string": _text,
    "date": _date,
}


def age(timestamp: str, now: float) -> str:
    """`5d6h` since an RFC 3339 time; `<unknown>` if empty, `<invalid>` if it is not a time or in the future."""
    if timestamp in ("", "null"):
        return "<unknown>"
    try:
        canonical = canonical_time(timestamp)
    except TimeError:
        return "<invalid>"
    if canonical == "0001-01-01T00:00:00Z":
        return "<unknown>"
    return human_duration(now - _seconds(canonical))


_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()


def _seconds(canonical: str) -> float:
    """Returns the seconds since 1970 of `2024-03-04T05:06:07Z`; the year 0000, which Python lacks, counts as 0001."""
    year = max(int(canonical[:4]), 1)
    days = datetime.date(year, int(canonical[5:7]), int(canonical[8:10])).toordinal() - _EPOCH_ORDINAL
    return days * 86400 + int(canonical[11:13]) * 3600 + int(canonical[14:16]) * 60 + int(canonical[17:19])


# -- ages
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400

# The maximum of Go's time.Duration.
_MAX_SECONDS = ((1 << 63) - 1) // 10**9


def human_duration(seconds: float) -> str:
    """`95s`, `2m5s`, `3h20m`, `5d6h`, `3y12d`; two seconds in the future and more is `<invalid>`."""
    whole = int(max(min(seconds, _MAX_SECONDS), -_MAX_SECONDS))  # towards zero, as Go's int()
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 48 * _HOUR:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, unit: int, letter: str, smaller: int, small_letter: str) -> str:
    rest = seconds % unit // smaller
    return f"{seconds // unit}{letter}{rest}{small_letter}" if rest else f"{seconds // unit}{letter}"
