"""What rules make of a schema, and whether that fits the schema of the version they lead to.

Works on the JSON of an openAPIV3Schema; its depth has been bounded. A schema stands for all objects that it allows, so
what holds here holds for each of them, but for empty objects (the remainder keeps those, see remainder.py).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.conversion.declarative.expression import ExpressionError, check_expression, element_at
from registry.conversion.declarative.model import ConversionPath, ConversionRule, Default, Drop, MapValues, Move, Set
from registry.conversion.declarative.paths import STAR, Path, format_path, split
from registry.schema.field import FieldError, go_json, invalid, required
from registry.schema.model import Structural, from_json
from registry.schema.validation import validate

Json = Any
Schema = dict[str, Any]

_HEAD = ("apiVersion", "kind", "metadata")
_KEEPS = "x-kubernetes-preserve-unknown-fields"
# The values that a map gives a field, and the place of the map; judged where the field comes to stand.
_GIVEN = "given"
# So many of a kind are told.
_MOST = 20


class ShapeError(ValueError):
    """Why a rule cannot work on a schema."""


@dataclass(slots=True)
class Verdict:
    """`losses` are sentences; each is refused unless the loss is acknowledged."""

    errors: list[FieldError] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)


def judge(way: ConversionPath, source: Schema, target: Schema, structural: Structural) -> Verdict:
    """Whether the rules of a way lead from one schema to the other, and what they lose."""
    verdict = Verdict()
    shape = copy.deepcopy(source)
    moved: list[Path] = []
    for rule in way.rules:
        try:
            if isinstance(rule, Move):
                moved += (rule.source, rule.target)
            if isinstance(rule, Set) and any(path == rule.path[: len(path)] for path in moved) and STAR in rule.path:
                raise ShapeError("elements are looked at as they were: this must come before what they are in is moved")
            apply_rule(rule, shape, target, structural, verdict)
        except ShapeError as error:
            verdict.errors.append(invalid(rule.where, f"{way.source} to {way.target}", str(error)))
    if not verdict.errors:
        _compare(shape, target, (), way, verdict)
    return verdict


def apply_rule(rule: ConversionRule, shape: Schema, target: Schema, structural: Structural, verdict: Verdict) -> None:
    match rule:
        case Move(_, old, new):
            put_node(shape, new, take_node(shape, old))
        case MapValues(_, path, pairs):
            node = _node(shape, path)
            _check_type(node, [old for old, _ in pairs], path)
            _merging(node, path, pairs, verdict)
            became = _type_of([new for _, new in pairs])
            if became != node.get("type") and not _all_mapped(node, pairs):
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
                found = check_expression(cel, element, is_root=not within)[1]
            except ExpressionError as error:
                raise ShapeError(str(error)) from error
            if find_node(shape, path) is not None:
                take_node(shape, path)
                verdict.losses.append(f"the value of {format_path(path)} is replaced by that of an expression")
            if found.get(_KEEPS) or not found:
                found = copy.deepcopy(find_node(target, path) or found)
            put_node(shape, path, found)
        case Drop(_, path):
            take_node(shape, path)
            verdict.losses.append(f"{format_path(path)} is dropped")


# -- the way through a schema
def _below(node: Schema, step: str) -> Schema | None:
    if step == STAR:
        inner = node.get("items", node.get("additionalProperties"))
    else:
        inner = (node.get("properties") or {}).get(step, node.get("additionalProperties"))
    if isinstance(inner, dict):
        return inner
    return {_KEEPS: True} if inner is True or (node.get(_KEEPS) and step != STAR) else None


def find_node(node: Schema, path: Path) -> Schema | None:
    found: Schema | None = node
    for step in path:
        if found is None:
            return None
        found = _below(found, step)
    return found


def _node(shape: Schema, path: Path) -> Schema:
    found = find_node(shape, path)
    if found is None:
        raise ShapeError(f"there is no field {format_path(path)}")
    return found


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
        found = _json_type(value)
        fits = kind is None or found == kind or (kind == "number" and found == "integer")
        if not fits and not (node.get("x-kubernetes-int-or-string") and found in ("integer", "string")):
            raise ShapeError(f"{format_path(path)} is of type {kind}, not {found}")


def _check_values(wanted: Schema, where: str, values: list[Json], verdict: Verdict) -> None:
    """Whether what a rule puts in is allowed there: enum, pattern, bounds."""
    schema = from_json({k: v for k, v in wanted.items() if k != _GIVEN})
    for value in values:
        verdict.errors += [
            invalid(where, value, f"the schema of the version that it leads to: {error.detail}")
            for error in validate(schema, value)[:1]
        ]


def _all_mapped(node: Schema, pairs: tuple[tuple[Json, Json], ...]) -> bool:
    values = [True, False] if node.get("type") == "boolean" else node.get("enum")
    mapped = [old for old, _ in pairs]
    return values is not None and all(value in mapped for value in values)


def _merging(node: Schema, path: Path, pairs: tuple[tuple[Json, Json], ...], verdict: Verdict) -> None:
    """Values that become the same, or the same as one that stays: which of them it was is lost."""
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


# -- the shape against the target
def _compare(shape: Schema, target: Schema, path: Path, way: ConversionPath, verdict: Verdict) -> None:
    if len(verdict.losses) >= _MOST or len(verdict.errors) >= _MOST:
        return
    if not _same_type(shape, target):
        verdict.errors.append(
            invalid(
                way.where,
                f"{way.source} to {way.target}",
                f"{format_path(path) or 'the object'} is {_named(shape)} in {way.source}, and must be "
                f"{_named(target)} in {way.target}",
            )
        )
        return
    if _GIVEN in shape:
        where, values = shape[_GIVEN]
        _check_values(target, where, values, verdict)
    if shape.get("items") is not None and target.get("items") is not None:
        _compare(shape["items"], target["items"], (*path, STAR), way, verdict)
    properties, values = shape.get("properties") or {}, shape.get("additionalProperties")
    for name, inner in properties.items():
        if not path and name in _HEAD:
            continue
        wanted = _below(target, name)
        if wanted is None and is_emptied(inner):
            continue  # that it was there is kept in the remainder
        if wanted is None:
            verdict.losses.append(f"{format_path((*path, name))} of {way.source} is not in {way.target}")
        else:
            _compare(inner, wanted, (*path, name), way, verdict)
    _compare_open(shape, values, target, path, way, verdict)
    for name in target.get("required") or ():
        if path == () and name in _HEAD:
            continue
        wanted = (target.get("properties") or {}).get(name) or {}
        if _below(shape, name) is None and "default" not in wanted:
            verdict.errors.append(
                required(
                    way.where,
                    f"{format_path((*path, name))} is required in {way.target}, and "
                    "nothing fills it: add a default or an expression",
                )
            )


def _compare_open(
    shape: Schema, values: Json, target: Schema, path: Path, way: ConversionPath, verdict: Verdict
) -> None:
    """Names that the schema leaves open."""
    if target.get(_KEEPS) or target.get("additionalProperties") is True:
        return
    allowed = target.get("additionalProperties")
    if isinstance(values, dict) and isinstance(allowed, dict):
        _compare(values, allowed, (*path, STAR), way, verdict)
    elif values or shape.get(_KEEPS):
        verdict.losses.append(
            f"unknown names in {format_path(path) or 'the object'} of {way.source} are not kept in {way.target}"
        )


def _same_type(shape: Schema, target: Schema) -> bool:
    if target.get("x-kubernetes-int-or-string"):
        return bool(shape.get("x-kubernetes-int-or-string")) or shape.get("type") in (None, "integer", "string")
    kind, wanted = shape.get("type"), target.get("type")
    # An int-or-string, and what has no type, fits only what takes anything.
    if wanted is None or kind == wanted:
        return True
    return (kind == "integer" and wanted == "number") or (kind is None and _is_open(shape))


def is_emptied(shape: Schema) -> bool:
    """An object of which rules have taken all that it had."""
    closed = shape.get("type") == "object" and not shape.get("additionalProperties") and not shape.get(_KEEPS)
    return closed and all(is_emptied(inner) for inner in (shape.get("properties") or {}).values())


def _is_open(shape: Mapping[str, Json]) -> bool:
    return not shape or (bool(shape.get(_KEEPS)) and not shape.get("x-kubernetes-int-or-string"))


def _named(schema: Schema) -> str:
    return "an int-or-string" if schema.get("x-kubernetes-int-or-string") else f"of type {schema.get('type')}"
