"""Defaulting: fields that are missing, or null where null is not allowed, get the default of their schema.

A default is set only where its parent exists; a default object is then completed by the defaults of its own fields.
In lists only nulls are replaced. Each object gets its own copy of a default, charged to the request's budget: a short
list of empty objects may have large defaults.

Before that, nulls that no default replaces are dropped; and the defaults of a schema are pruned when it is compiled.

Follows apiextensions-apiserver pkg/apiserver/schema/defaulting/{algorithm,prunenulls,prune}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from registry.budget import spend
from registry.codec.go_text import go_json
from registry.schema.embedded import EmbeddedError, EmbeddedResources
from registry.schema.model import UNSET, Structural
from registry.schema.pruning import prune
from registry.schema.validation import validate
from registry.schema.values import Json, deep_copy


class Defaulter(Protocol):
    def __call__(self, value: Any, old: Any = None, /) -> None:
        """Defaults a dict or a list in place. Parts that it shares with `old`, at the same place in objects, have all
        their defaults."""


def compile_defaulter(schema: Structural) -> Defaulter | None:
    """Compiles a function that defaults a dict or list under `schema` in place; None if the schema has no defaults."""
    fills = [
        (name, _maker(inner.default), inner.nullable, _units(inner.default, name))
        for name, inner in schema.properties.items()
        if inner.default is not UNSET
    ]
    children = [
        (name, defaulter)
        for name, inner in schema.properties.items()
        if (defaulter := compile_defaulter(inner)) is not None
    ]
    for_objects = _object_defaulter(fills, children) if fills or children else None
    if isinstance(schema.additional_properties, Structural):
        for_objects = _map_defaulter(schema.additional_properties, frozenset(schema.properties), for_objects)
    for_lists = _list_defaulter(schema.items) if schema.items is not None else None
    return _by_kind(for_objects, for_lists)


def default(value: Json, schema: Structural) -> None:
    """Defaults `value` in place, without caching the compiled function."""
    defaulter = compile_defaulter(schema)
    if defaulter is not None:
        defaulter(value)


def _units(value: Json, name: str = "") -> int:
    """The cost of encoding, storing and sending a default: the shortest cost something, too."""
    return (len(go_json(value)) + len(name) + 4) >> 2


def _maker(value: Json) -> Callable[[], Json]:
    """A function that returns a new copy of a default."""
    if value.__class__ is not dict and value.__class__ is not list:
        return lambda: value
    inner = value.values() if value.__class__ is dict else value
    if any(entry.__class__ is dict or entry.__class__ is list for entry in inner):
        return lambda: deep_copy(value)
    copy: Callable[[], Json] = value.copy
    return copy


def _by_kind(for_objects: Defaulter | None, for_lists: Defaulter | None) -> Defaulter | None:
    if for_objects is None and for_lists is None:
        return None

    def apply(value: Any, old: Any = None, /) -> None:
        if value.__class__ is dict:
            if for_objects is not None:
                for_objects(value, old if old.__class__ is dict else None)
        elif value.__class__ is list and for_lists is not None:
            for_lists(value)

    return apply


def _object_defaulter(
    fills: list[tuple[str, Callable[[], Json], bool, int]], children: list[tuple[str, Defaulter]]
) -> Defaulter:
    def apply(value: dict[str, Json], old: Any = None, /) -> None:
        uncharged = 0
        for name, make, nullable, units in fills:
            if name not in value or (value[name] is None and not nullable):
                value[name] = make()
                uncharged += units
        if uncharged:
            spend(uncharged)
        for name, child in children:
            inner = value.get(name)
            if inner.__class__ is dict or inner.__class__ is list:
                if old is None:
                    child(inner)
                elif (before := old.get(name)) is not inner:
                    child(inner, before)

    return apply


def _map_defaulter(schema: Structural, properties: frozenset[str], named: Defaulter | None) -> Defaulter | None:
    """The defaulter of a map's values; `named` is that of properties, which a schema may also have."""
    child = compile_defaulter(schema)
    make = _maker(schema.default) if schema.default is not UNSET and not schema.nullable else None
    units = _units(schema.default) if make is not None else 0
    if child is None and make is None:
        return named

    def apply(value: dict[str, Json], old: Any = None, /) -> None:
        if named is not None:
            named(value, old)
        for name, inner in value.items():
            if name in properties:
                continue
            if inner is None and make is not None:
                spend(units)
                inner = value[name] = make()
            if child is not None and (inner.__class__ is dict or inner.__class__ is list):
                child(inner)

    return apply


def _list_defaulter(schema: Structural) -> Defaulter | None:
    child = compile_defaulter(schema)
    make = _maker(schema.default) if schema.default is not UNSET and not schema.nullable else None
    units = _units(schema.default) if make is not None else 0
    if child is None and make is None:
        return None

    def apply(value: list[Json], _: Any = None, /) -> None:
        for position, item in enumerate(value):
            if item is None and make is not None:
                spend(units)
                item = value[position] = make()
            if child is not None and (item.__class__ is dict or item.__class__ is list):
                child(item)

    return apply


def drop_nulls(value: Json, schema: Structural, *, only_valid: bool) -> None:
    """Removes fields that are null, not nullable and without a default, in place.

    A null with a default is left for defaulting; nulls in lists and nulls without a schema are kept. Recursion follows
    the schema, whose depth is bounded.

    With `only_valid`, nulls that are invalid by their schemas remain, for validation to refuse.
    """
    if value.__class__ is dict:
        additional = schema.additional_properties
        rest = additional if isinstance(additional, Structural) else None
        dropped: list[str] = []
        for name, inner in value.items():
            inner_schema = schema.properties.get(name, rest)
            if inner_schema is None:
                continue
            if inner is None:
                may_stay = inner_schema.nullable or inner_schema.default is not UNSET
                if not (may_stay or (only_valid and validate(inner_schema, None))):
                    dropped.append(name)
            elif inner.__class__ is dict or inner.__class__ is list:
                drop_nulls(inner, inner_schema, only_valid=only_valid)
        for name in dropped:
            del value[name]
    elif value.__class__ is list and schema.items is not None:
        for item in value:
            if item.__class__ is dict or item.__class__ is list:
                drop_nulls(item, schema.items, only_valid=only_valid)


# -- pruning of defaults: a default is pruned as part of an object, as its place decides which of its fields are known
# The path from the root to a default: names of members, and None for an item of a list.
_Way = tuple[str | None, ...]


def prune_defaults(schema: Structural) -> Structural:
    """The same schema whose defaults have no unknown fields in the metadata of embedded resources; `schema` itself
    where it has none.

    `{"metadata": {"name": "a", "odd": 1}}`, the default of an embedded resource, becomes `{"metadata": {"name": "a"}}`.
    """
    embedded = EmbeddedResources(schema)
    return _pruned(schema, schema, embedded, ()) if embedded.present else schema


def _pruned(schema: Structural, root: Structural, embedded: EmbeddedResources, way: _Way) -> Structural:
    changes: dict[str, object] = {}
    if schema.default is not UNSET and schema.default is not None:
        changes["default"] = _pruned_default(schema.default, root, embedded, way)
    if isinstance(schema.additional_properties, Structural):
        changes["additional_properties"] = _pruned(schema.additional_properties, root, embedded, (*way, "*"))
    if schema.items is not None:
        changes["items"] = _pruned(schema.items, root, embedded, (*way, None))
    if schema.properties:
        changes["properties"] = {
            name: _pruned(inner, root, embedded, (*way, name)) for name, inner in schema.properties.items()
        }
    changed = {name: value for name, value in changes.items() if _is_other(getattr(schema, name), value)}
    return replace(schema, **changed) if changed else schema  # type: ignore[arg-type]


def _is_other(before: object, after: object) -> bool:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return any(_is_other(before.get(name), value) for name, value in after.items()) or len(before) != len(after)
    return before is not after and before != after


def _pruned_default(default: Json, root: Structural, embedded: EmbeddedResources, way: _Way) -> Json:
    """Returns the pruned default, or UNSET if nothing is left of it."""
    whole = deep_copy(default)
    for name in reversed(way):
        whole = [whole] if name is None else {name: whole}
    if not isinstance(whole, dict):
        return default
    try:
        embedded.coerce(whole, None)
    except EmbeddedError:
        return default  # refused with the object that it would be part of
    prune(whole, root, is_root=True)
    value: Json = whole
    for name in way:
        if name is None:
            value = value[0]
        elif name not in value:
            return UNSET
        else:
            value = value[name]
    return value
