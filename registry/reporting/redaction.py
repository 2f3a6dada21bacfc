"""What of an object is sensitive and must not be shown: in reports (docs/sql.md) and in its past (docs/history.md).

A field with `format: password`, and what the definition marks (registry/reporting/marking.py); or the whole array or
map that holds one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from registry.schema.model import Structural
from registry.store.reporting.model import Path


def redacted_paths(schema: Structural, marks: tuple[Path, ...]) -> tuple[Path, ...]:
    """What is taken out of a whole object: sensitive fields, or the whole array or map that holds one."""
    found: list[Path] = []
    _redact(schema, (), found)
    for mark in marks:
        found.append(_before_array(schema, mark))
    return tuple(dict.fromkeys(p for p in found if p))


def without(obj: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """A copy without what is at the paths. As report_without in PostgreSQL: where a path leads through anything but
    objects, that goes whole.

    `{"spec": {"a": 1, "token": "x"}}` without `("spec", "token")` gives `{"spec": {"a": 1}}`.
    """
    found: dict[str, Any] = dict(obj)
    for path in paths:
        found = _without(found, path)
    return found


def _without(obj: Mapping[str, Any], path: Path) -> dict[str, Any]:
    step, *rest = path
    if step not in obj:
        return dict(obj)
    value = obj[step]
    if not rest or (not isinstance(value, dict) and value is not None):
        return {key: below for key, below in obj.items() if key != step}
    return {**obj, step: _without(value, tuple(rest))} if value is not None else dict(obj)


def is_marked(path: Path, marks: tuple[Path, ...]) -> bool:
    return any(path[: len(mark)] == mark for mark in marks)


def holds_sensitive(schema: Structural, path: Path, marks: tuple[Path, ...]) -> bool:
    """Whether something sensitive is at or below a node that would be shown whole."""
    if schema.format == "password" or is_marked(path, marks) or any(mark[: len(path)] == path for mark in marks):
        return True
    below = [(*path, storable_text(name)) for name in schema.properties]
    if any(holds_sensitive(s, p, marks) for p, s in zip(below, schema.properties.values(), strict=True)):
        return True
    values = schema.additional_properties
    if isinstance(values, Structural) and holds_sensitive(values, (*path, "*"), marks):
        return True
    return schema.items is not None and holds_sensitive(schema.items, path, marks)


def _redact(schema: Structural, path: Path, found: list[Path]) -> None:
    if schema.format == "password":
        found.append(path)
    for name, below in schema.properties.items():
        _redact(below, (*path, storable_text(name)), found)
    values = schema.additional_properties
    for whole in (schema.items, values if isinstance(values, Structural) else None):
        if whole is not None and holds_sensitive(whole, path, ()):
            found.append(path)


def _before_array(schema: Structural, mark: Path) -> Path:
    """A mark, or the array or map that it leads through."""
    node: Structural | None = schema
    for length, step in enumerate(mark):
        if node is not None and (node.type == "array" or isinstance(node.additional_properties, Structural)):
            return mark[:length]
        if step == "*" and (node is None or step not in node.properties):
            return mark[:length]  # every key of a map without a schema
        node = node.properties.get(step) if node is not None else None
    return mark


def storable_text(text: str) -> str:
    """As PostgreSQL holds it, which has no U+0000: documents have the same in its place."""
    return text.replace("\x00", "\ufffd")
