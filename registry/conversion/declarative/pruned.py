"""The fields that the target schema of a conversion prunes, as far as the schemas alone determine it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from registry.conversion.declarative.model import ConversionPath, Set
from registry.conversion.declarative.paths import STAR, Path
from registry.conversion.declarative.shapes import ShapeError, ShapeVerdict, apply_rule, find_node, is_emptied
from registry.schema.compiled import CompiledSchema
from registry.schema.model import KEEPS_ALL
from registry.schema.pruning import META_FIELDS

Json = Any
Schema = dict[str, Any]

_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"


def pruned_fields(conversion: ConversionPath, source: CompiledSchema, target: CompiledSchema) -> list[Path]:
    """Fields that converted objects may have and that the target certainly prunes.

    Not all of them: removing these first saves the search through the whole object in most cases.
    """
    shape = copy.deepcopy(dict(source.json))
    try:
        for rule in conversion.rules:
            if not isinstance(rule, Set):
                apply_rule(rule, shape, dict(target.json), source.structural, ShapeVerdict())
    except ShapeError:
        return []
    fields: list[Path] = []
    pending: list[tuple[Path, Schema, Schema]] = [((), shape, dict(target.json))]
    while pending:
        path, node, other = pending.pop()
        names = other.get("properties") or {}
        for name, inner in (node.get("properties") or {}).items():
            if name in names:
                pending.append(((*path, name), inner, names[name]))
            elif pruned_at(target.json, (*path, name)) == len(path):
                fields.append((*path, name))
        if node.get("items") and other.get("items"):
            pending.append(((*path, STAR), node["items"], other["items"]))
    return sorted(path for path in fields if path[0] not in META_FIELDS)


def pruned_at(schema: Mapping[str, Json], path: Path) -> int | None:
    """The number of path segments that the schema knows, if it prunes the next; None where it does not."""
    if schema.get(KEEPS_ALL):
        return None
    node = dict(schema)
    for i, name in enumerate(path):
        if node.get("type") == "array" and node.get(_KEEPS):
            return None
        inner = find_node(node, (name,))
        if inner is not None:
            node = inner
        elif (
            name == STAR or (node.get("x-kubernetes-embedded-resource") and name in META_FIELDS) or not _is_closed(node)
        ):
            return None
        else:
            return i
    return None


def _is_closed(node: Mapping[str, Json]) -> bool:
    return node.get("type") == "object" and node.get("additionalProperties") is None and not node.get(_KEEPS)


def fits(shape: Schema, target: Schema, path: Path, unknown: list[Path]) -> bool:
    """Whether the target's schema prunes nothing of `shape` except the paths added to `unknown`."""
    if not _same_kind(shape, target):
        return False
    items, wanted = shape.get("items"), target.get("items")
    if (items is None) != (wanted is None) or (items and not fits(items, wanted or {}, (*path, STAR), unknown)):
        return False
    inner, others = shape.get("properties") or {}, target.get("properties") or {}
    if shape.get(_KEEPS) and (not target.get(_KEEPS) or not inner.keys() >= others.keys()):
        return False
    if not _values_fit(shape, target, path, unknown):
        return False
    for name, node in inner.items():
        if not path and name in META_FIELDS:
            continue
        other = others.get(name)
        if other is not None:
            if not fits(node, other, (*path, name), unknown):
                return False
        elif is_emptied(node) or _is_closed(target):
            unknown.append((*path, name))
        else:
            return False
    return True


def _values_fit(shape: Schema, target: Schema, path: Path, unknown: list[Path]) -> bool:
    """Whether the values of names that `properties` leaves open fit."""
    values, allowed = shape.get("additionalProperties"), target.get("additionalProperties")
    if isinstance(values, dict) and isinstance(allowed, dict):
        return fits(values, allowed, (*path, STAR), unknown) if allowed or not values else False
    return not values or (bool(allowed) and isinstance(values, dict) == isinstance(allowed, dict))


def _same_kind(shape: Schema, target: Schema) -> bool:
    kind, wanted = shape.get("type"), target.get("type")
    same = kind == wanted or (kind == "integer" and wanted == "number")
    if shape.get("nullable") and not target.get("nullable"):
        return False
    return same and all(
        shape.get(f"x-kubernetes-{name}") == target.get(f"x-kubernetes-{name}")
        for name in ("embedded-resource", "int-or-string")
    )
