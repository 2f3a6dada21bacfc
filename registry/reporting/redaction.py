"""Redaction of sensitive fields: in reports (docs/sql.md) and in the history of objects (docs/history.md).

Sensitive are fields with `format: password`, and those that the definition marks (registry/reporting/marking.py). If
one is within an array or map, the whole array or map is redacted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from registry.schema.model import Structural
from registry.store.reporting.model import Path


def redacted_paths(schema: Structural, marks: tuple[Path, ...]) -> tuple[Path, ...]:
    """The paths to remove from a whole object: sensitive fields, or the whole array or map that contains one."""
    paths: list[Path] = []
    _redact(schema, (), paths)
    for mark in marks:
        paths.append(_before_array(schema, mark))
    return tuple(dict.fromkeys(p for p in paths if p))


def without(obj: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    """A copy without the values at the paths. As report_without in PostgreSQL: if a path passes through anything but
    an object, that value is removed as a whole.

    `{"spec": {"a": 1, "token": "x"}}` without `("spec", "token")` gives `{"spec": {"a": 1}}`.
    """
    copy: dict[str, Any] = dict(obj)
    for path in paths:
        copy = _without(copy, path)
    return copy


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
    """Whether there is a sensitive field at or below a node that would be shown as a whole."""
    if schema.format == "password" or is_marked(path, marks) or any(mark[: len(path)] == path for mark in marks):
        return True
    below = [(*path, storable_text(name)) for name in schema.properties]
    if any(holds_sensitive(s, p, marks) for p, s in zip(below, schema.properties.values(), strict=True)):
        return True
    values = schema.additional_properties
    if isinstance(values, Structural) and holds_sensitive(values, (*path, "*"), marks):
        return True
    return schema.items is not None and holds_sensitive(schema.items, path, marks)


def _redact(schema: Structural, path: Path, paths: list[Path]) -> None:
    if schema.format == "password":
        paths.append(path)
    for name, below in schema.properties.items():
        _redact(below, (*path, storable_text(name)), paths)
    values = schema.additional_properties
    for whole in (schema.items, values if isinstance(values, Structural) else None):
        if whole is not None and holds_sensitive(whole, path, ()):
            paths.append(path)


def _before_array(schema: Structural, mark: Path) -> Path:
    """The path of a mark, cut at the first array or map that it passes through."""
    node: Structural | None = schema
    for length, step in enumerate(mark):
        if node is not None and (node.type == "array" or isinstance(node.additional_properties, Structural)):
            return mark[:length]
        if step == "*" and (node is None or step not in node.properties):
            return mark[:length]  # a key of a map without a schema
        node = node.properties.get(step) if node is not None else None
    return mark


def storable_text(text: str) -> str:
    """Replaces U+0000, which PostgreSQL cannot store, by U+FFFD; documents do the same."""
    return text.replace("\x00", "\ufffd")
