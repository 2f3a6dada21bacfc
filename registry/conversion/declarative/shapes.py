"""Checks that the rules turn one version's schema into one that fits the other's, and finds what they lose.

Works on the JSON of an openAPIV3Schema, whose depth has been bounded. A schema stands for all objects that it allows,
so what holds here holds for each of them, except for empty objects (kept by the complement, see complement.py).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.codec.go_text import go_json
from registry.conversion.declarative.expression import ExpressionError, check_expression, element_at
from registry.conversion.declarative.model import ConversionPath, ConversionRule, Default, Drop, MapValues, Move, Set
from registry.conversion.declarative.paths import STAR, Path, format_path, split
from registry.schema.field import FieldError, invalid, required
from registry.schema.model import Structural, from_json
from registry.schema.pruning import META_FIELDS
from registry.schema.validation import validate

Json = Any
Schema = dict[str, Any]

_KEEPS = "x-kubernetes-preserve-unknown-fields"
# The values that a map assigns, and the path of the map; checked where the field ends up.
_GIVEN = "given"
# The number of problems of one kind that are reported.
_MOST = 20


class ShapeError(ValueError):
    """Why a rule cannot be applied to a schema."""


@dataclass(slots=True)
class ShapeVerdict:
    """`errors` reject the rules. `losses` are sentences; each rejects them unless the loss is acknowledged."""

    errors: list[FieldError] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)


def check_conversion(
    conversion: ConversionPath, source: Schema, target: Schema, structural: Structural
) -> ShapeVerdict:
    """Checks that the rules convert objects of one schema to the other; returns errors and losses."""
    verdict = ShapeVerdict()
    shape = copy.deepcopy(source)
    moved: list[Path] = []
    for rule in conversion.rules:
        try:
            if isinstance(rule, Move):
                moved += (rule.source, rule.target)
            if isinstance(rule, Set) and any(path == rule.path[: len(path)] for path in moved) and STAR in rule.path:
                raise ShapeError("elements are looked at as they were: this must come before what they are in is moved")
            apply_rule(rule, shape, target, structural, verdict)
        except ShapeError as error:
            verdict.errors.append(invalid(rule.where, f"{conversion.source} to {conversion.target}", str(error)))
    if not verdict.errors:
        _compare(shape, target, (), conversion, verdict)
    return verdict


def apply_rule(
    rule: ConversionRule, shape: Schema, target: Schema, structural: Structural, verdict: ShapeVerdict
) -> None:
    match rule:
        case Move(_, old, new):
            put_node(shape, new, take_node(shape, old))
        case MapValues(_, path, pairs):
            node = _node(shape, path)
            _check_type(node, [old for old, _ in pairs], path)
            _merging(node, path, pairs, verdict)
            became = _type_of([new for _, new in pairs])
            if became != node.get("type") and not _maps_every_value(node, pairs):
                raise ShapeError(
                    f"{format_path(path)} would be of type {node.get('type')} or {became}: values of its enum "
                    "that are not mapped stay as they are"
                )
            node.clear()
            node.update({"type": became, _GIVEN: (rule.where, [new for _, new in pairs])})
        case Default(_, path, value):
            wanted = find_node(target, path)
            if wanted is not None:
                _check_type(wanted, [value], path)
                _check_values(wanted, rule.where, [value], verdict)
            if find_node(shape, path) is None:
                put_node(shape, path, copy.deepcopy(wanted) if wanted is not None else {})
        case Set(_, path, cel):
            try:
                within, _ = split(path)
                element = element_at(structural, within)
                if element is None or find_node(shape, within) is None:
                    raise ShapeError(f"there is no {format_path(within)} to look at")
                produced = check_expression(cel, element, is_root=not within)[1]
            except ExpressionError as error:
                raise ShapeError(str(error)) from error
            if find_node(shape, path) is not None:
                take_node(shape, path)
                verdict.losses.append(f"the value of {format_path(path)} is replaced by that of an expression")
            if produced.get(_KEEPS) or not produced:
                produced = copy.deepcopy(find_node(target, path) or produced)
            put_node(shape, path, produced)
        case Drop(_, path):
            take_node(shape, path)
            verdict.losses.append(f"{format_path(path)} is dropped")


# -- navigation in a schema
def _below(node: Schema, step: str) -> Schema | None:
    if step == STAR:
        inner = node.get("items", node.get("additionalProperties"))
    else:
        inner = (node.get("properties") or {}).get(step, node.get("additionalProperties"))
    if isinstance(inner, dict):
        return inner
    return {_KEEPS: True} if inner is True or (node.get(_KEEPS) and step != STAR) else None


def find_node(node: Schema, path: Path) -> Schema | None:
    current: Schema | None = node
    for step in path:
        if current is None:
            return None
        current = _below(current, step)
    return current


def _node(shape: Schema, path: Path) -> Schema:
    existing = find_node(shape, path)
    if existing is None:
        raise ShapeError(f"there is no field {format_path(path)}")
    return existing


def take_node(shape: Schema, path: Path) -> Schema:
    node, holder = _node(shape, path), _node(shape, path[:-1])
    properties = holder.get("properties") or {}
    if path[-1] in properties:
        del properties[path[-1]]
        holder["required"] = [name for name in holder.get("required") or () if name != path[-1]]
    return node


def put_node(shape: Schema, path: Path, node: Schema) -> None:
    holder = shape
    for i, step in enumerate(path[:-1]):
        inner = _below(holder, step)
        if inner is None:
            if step == STAR or holder.get("type") not in (None, "object"):
                raise ShapeError(
                    f"there is no place for {format_path(path)}: {format_path(path[: i + 1])} is not there"
                )
            inner = holder.setdefault("properties", {})[step] = {"type": "object"}
        holder = inner
    if holder.get("type") not in (None, "object"):
        raise ShapeError(
            f"there is no place for {format_path(path)}: {format_path(path[:-1])} is of type {holder['type']}"
        )
    if path[-1] in (holder.get("properties") or {}):
        raise ShapeError(f"there is a field {format_path(path)} already")
    holder.setdefault("properties", {})[path[-1]] = node


# -- values
def _type_of(values: list[Json]) -> str:
    names = {_json_type(value) for value in values}
    if names == {"integer", "number"}:
        return "number"
    if len(names) != 1:
        raise ShapeError("the values must be of one type")
    return names.pop()


def _json_type(value: Json) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _check_type(node: Schema, values: list[Json], path: Path) -> None:
    kind = node.get("type")
    for value in values:
        actual = _json_type(value)
        fits = kind is None or actual == kind or (kind == "number" and actual == "integer")
        if not fits and not (node.get("x-kubernetes-int-or-string") and actual in ("integer", "string")):
            raise ShapeError(f"{format_path(path)} is of type {kind}, not {actual}")


def _check_values(wanted: Schema, where: str, values: list[Json], verdict: ShapeVerdict) -> None:
    """Checks that values assigned by a rule are allowed: enum, pattern, bounds."""
    schema = from_json({k: v for k, v in wanted.items() if k != _GIVEN})
    for value in values:
        verdict.errors += [
            invalid(where, value, f"the schema of the version that it leads to: {error.detail}")
            for error in validate(schema, value)[:1]
        ]


def _maps_every_value(node: Schema, pairs: tuple[tuple[Json, Json], ...]) -> bool:
    values = [True, False] if node.get("type") == "boolean" else node.get("enum")
    mapped = [old for old, _ in pairs]
    return values is not None and all(value in mapped for value in values)


def _merging(node: Schema, path: Path, pairs: tuple[tuple[Json, Json], ...], verdict: ShapeVerdict) -> None:
    """Reports values that become equal, to each other or to one that is unchanged: which one it was is lost."""
    became: dict[tuple[type, Json], Json] = {}
    enum = [True, False] if node.get("type") == "boolean" else node.get("enum")
    mapped = {(type(old), old) for old, _ in pairs}
    for value in enum or ():
        if (type(value), value) not in mapped and not isinstance(value, dict | list):
            became[type(value), value] = value
    for old, new in pairs:
        before = became.setdefault((type(new), new), old)
        stays = enum is None and (type(new), new) not in mapped and node.get("type") == _json_type(new)
        if before != old:
            verdict.losses.append(
                f"{go_json(before)} and {go_json(old)} of {format_path(path)} both become {go_json(new)}"
            )
        elif stays:
            verdict.losses.append(
                f"{go_json(old)} of {format_path(path)} becomes {go_json(new)}, which may have been there: "
                "an enum without it, or mapping it too, would rule that out"
            )


# -- the resulting shape against the target
def _compare(shape: Schema, target: Schema, path: Path, conversion: ConversionPath, verdict: ShapeVerdict) -> None:
    if len(verdict.losses) >= _MOST or len(verdict.errors) >= _MOST:
        return
    if not _same_type(shape, target):
        why = (
            f"{format_path(path) or 'the object'} is {_describe_type(shape)} in {conversion.source}, and must be "
            f"{_describe_type(target)} in {conversion.target}"
        )
        verdict.errors.append(invalid(conversion.where, f"{conversion.source} to {conversion.target}", why))
        return
    if _GIVEN in shape:
        where, values = shape[_GIVEN]
        _check_values(target, where, values, verdict)
    if shape.get("items") is not None and target.get("items") is not None:
        _compare(shape["items"], target["items"], (*path, STAR), conversion, verdict)
    properties, values = shape.get("properties") or {}, shape.get("additionalProperties")
    for name, inner in properties.items():
        if not path and name in META_FIELDS:
            continue
        wanted = _below(target, name)
        if wanted is None and is_emptied(inner):
            continue  # its presence is kept by the complement
        if wanted is None:
            verdict.losses.append(f"{format_path((*path, name))} of {conversion.source} is not in {conversion.target}")
        else:
            _compare(inner, wanted, (*path, name), conversion, verdict)
    _compare_open(shape, values, target, path, conversion, verdict)
    for name in target.get("required") or ():
        if path == () and name in META_FIELDS:
            continue
        wanted = (target.get("properties") or {}).get(name) or {}
        if _below(shape, name) is None and "default" not in wanted:
            why = (
                f"{format_path((*path, name))} is required in {conversion.target}, and "
                "nothing fills it: add a default or an expression"
            )
            verdict.errors.append(required(conversion.where, why))


def _compare_open(
    shape: Schema, values: Json, target: Schema, path: Path, conversion: ConversionPath, verdict: ShapeVerdict
) -> None:
    """Compares the names that the schema leaves open (additionalProperties, preserve-unknown-fields)."""
    if target.get(_KEEPS) or target.get("additionalProperties") is True:
        return
    allowed = target.get("additionalProperties")
    if isinstance(values, dict) and isinstance(allowed, dict):
        _compare(values, allowed, (*path, STAR), conversion, verdict)
    elif values or shape.get(_KEEPS):
        verdict.losses.append(
            f"unknown names in {format_path(path) or 'the object'} of {conversion.source} are not kept in "
            f"{conversion.target}"
        )


def _same_type(shape: Schema, target: Schema) -> bool:
    if target.get("x-kubernetes-int-or-string"):
        return bool(shape.get("x-kubernetes-int-or-string")) or shape.get("type") in (None, "integer", "string")
    kind, wanted = shape.get("type"), target.get("type")
    # An int-or-string, and a node without a type, fit only a node that allows anything.
    if wanted is None or kind == wanted:
        return True
    return (kind == "integer" and wanted == "number") or (kind is None and _is_open(shape))


def is_emptied(shape: Schema) -> bool:
    """Whether rules have removed every property of an object."""
    closed = shape.get("type") == "object" and not shape.get("additionalProperties") and not shape.get(_KEEPS)
    return closed and all(is_emptied(inner) for inner in (shape.get("properties") or {}).values())


def _is_open(shape: Mapping[str, Json]) -> bool:
    return not shape or (bool(shape.get(_KEEPS)) and not shape.get("x-kubernetes-int-or-string"))


def _describe_type(schema: Schema) -> str:
    return "an int-or-string" if schema.get("x-kubernetes-int-or-string") else f"of type {schema.get('type')}"
