"""Prunes the defaults of a schema: removes unknown fields of the metadata of embedded resources.

A default is pruned as part of an object, because its place in the object decides which of its fields are known.

Follows apiextensions-apiserver pkg/apiserver/schema/defaulting/prune.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from registry.schema.embedded import EmbeddedError, EmbeddedResources
from registry.schema.model import UNSET, Structural
from registry.schema.pruning import prune
from registry.schema.values import Json, deep_copy

# The path from the root to a default: names of members, and None for an item of a list.
_Way = tuple[str | None, ...]


def prune_defaults(schema: Structural) -> Structural:
    """The same schema with pruned defaults; `schema` itself where it has no embedded resources.

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
