"""Indexed fields: assigns each a column of `objects`, and builds the document with their values on each write.

The document is the stored body as jsonb stores it, without managed fields, with the indexed values at
`metadata.facets`, a name that no object can use. PostgreSQL generates the columns from it. `layout` identifies the set
of indexed fields; objects of another layout are written again (registry/controllers/reporting.py).

The column of a field depends on the definition only, so that every process writes the same.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from registry.codec.json_encode import encode_canonical, encode_json_text
from registry.codec.stored import decode_stored
from registry.reporting.fields import at_path, has_ready, kind_of
from registry.schema.model import Structural
from registry.store.reporting.model import Facet, Path, ReportKind

# Increment this when documents of the same objects change.
_ALGORITHM: Final = 2

# The available columns of each type (registry/store/tables.py).
SLOTS: Final[Mapping[ReportKind, tuple[str, ...]]] = {
    ReportKind.TEXT: ("text1", "text2", "text3"),
    ReportKind.INTEGER: ("int1", "int2"),
    ReportKind.NUMBER: ("float1",),
    ReportKind.TIME: ("time1",),
}
# The entry size limit of a B-tree is 2.7 kB, at four bytes per character.
LONGEST_TEXT: Final = 500

_INT64: Final = 1 << 63
# A zero character, but not an escaped backslash before `u0000`.
_ZERO = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def facets_of(
    schema: Structural, wanted: Sequence[Path], marks: Sequence[Path]
) -> tuple[tuple[Facet, ...], list[Path]]:
    """The facets of the wanted fields, in order while columns are left, and the fields that got none."""
    free = {kind: list(slots) for kind, slots in SLOTS.items()}
    facets: list[Facet] = []
    refused: list[Path] = []
    for path in dict.fromkeys(wanted):
        node = at_path(schema, path)
        kind = kind_of(node) if node is not None else None
        hidden = node is not None and (node.format == "password" or any(path[: len(m)] == m for m in marks))
        if kind is None or hidden or not free.get(kind):
            refused.append(path)
            continue
        facets.append(Facet(free[kind].pop(0), path, kind))
    return tuple(facets), refused


class Documents:
    """Builds the documents of one version of a definition."""

    def __init__(self, facets: Sequence[Facet], ready: bool) -> None:
        self.facets = tuple(facets)
        self.layout = layout_of(facets, ready)
        self._ready = ready
        has_any = ',"any":true' if facets or ready else ""
        self._head = f'{{"metadata":{{"facets":{{"layout":"{self.layout}"{has_any}'

    def text(self, obj: Mapping[str, Any], body: str) -> str:
        """The document of a stored body (registry/store/types.py, Row). `obj` is the same object, decoded.

        `"managedFields":[...],"name":"a"},"spec":{}}` gives `{"metadata":{"facets":{..},"name":"a"},"spec":{}}`.
        """
        values = self._facets(obj)
        middle = f",{encode_json_text(values)[1:]}," if values else "},"
        if obj["metadata"].get("managedFields"):
            body = _without_managed_fields(body)
        text = f"{self._head}{middle}{body}"
        return _ZERO.sub(r"\1\\ufffd", text) if "\\u0000" in text else text

    def of_body(self, body: str) -> str:
        """The document of an object of which only the body is at hand."""
        return self.text(decode_stored('{"metadata":{' + body), body)

    def _facets(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for facet in self.facets:
            value: Any = obj
            for step in facet.path:
                if not isinstance(value, dict):
                    value = None
                    break
                value = value.get(step)
            value = _FACET_OF[facet.kind](value) if value is not None else None
            if value is not None:
                values[facet.slot] = value
        if self._ready:
            values |= _readiness(obj)
        return values


def layout_of(facets: Sequence[Facet], ready: bool) -> str:
    layout = encode_canonical([_ALGORITHM, ready, *([f.slot, *f.path] for f in facets)])
    return hashlib.blake2b(layout.encode(), digest_size=6).hexdigest()


def documents_for(schema: Structural, wanted: Sequence[Path], marks: Sequence[Path]) -> Documents:
    return Documents(facets_of(schema, wanted, marks)[0], has_ready(schema))


def _without_managed_fields(body: str) -> str:
    """Keys are ordered by their bytes: the name follows managedFields, in which arrays only occur within strings."""
    start = body.find('"managedFields":[')
    end = body.find('],"name":"', start)
    if start < 0 or end < 0:  # not canonical: deeper than orjson goes
        value = decode_stored('{"metadata":{' + body)
        value["metadata"].pop("managedFields", None)
        return encode_canonical(value)[len('{"metadata":{') :]
    return body[:start] + body[end + 2 :]


def _readiness(obj: Mapping[str, Any]) -> dict[str, Any]:
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    newest = None
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict):
            if condition.get("type") == "Ready":
                newest = condition
                break
            if condition.get("type") == "Available":
                newest = condition
    if newest is None:
        return {}
    since = _time(newest.get("lastTransitionTime"))
    return {"ready": newest.get("status") == "True"} | ({} if since is None else {"ready_since": since})


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value[:LONGEST_TEXT]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64
    return value if whole else None


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _time(value: Any) -> float | None:
    """Seconds since 1970. PostgreSQL's times have microseconds, which these floats represent until the year 2255."""
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.datetime.fromisoformat(value)
        return parsed.timestamp() if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


_FACET_OF: Final = {
    ReportKind.TEXT: _text,
    ReportKind.INTEGER: _integer,
    ReportKind.NUMBER: _number,
    ReportKind.TIME: _time,
}
