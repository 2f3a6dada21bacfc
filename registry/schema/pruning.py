"""Pruning: removes fields that the schema does not name.

The root and embedded resources always keep apiVersion, kind and metadata. Below x-kubernetes-preserve-unknown-fields
unnamed fields are kept; named ones are pruned by their own schemas. Pruning depends on values only, never on types: a
list where the schema has an object loses the fields of its objects.

Follows apiextensions-apiserver pkg/apiserver/schema/pruning/algorithm.go.
"""

from __future__ import annotations

from registry.schema.field import child, index
from registry.schema.model import Structural
from registry.schema.values import Json

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})

# A hostile object could have very many unknown fields with very long paths. Beyond this no more are collected (but all
# are pruned): it is the maximum length of the message of a Status.
_MAX_PATHS_CHARACTERS = 1 << 18


def prune(obj: Json, schema: Structural, *, is_root: bool, unknown: list[str] | None = None) -> None:
    """Prunes `obj` in place and appends the path of each topmost removed field to `unknown`, sorted.

    `{"spec": {"a": 1, "l": [{"x": 1}]}}` under a schema that knows spec and spec.l only becomes
    `{"spec": {"l": [{}]}}`, with the paths `spec.a` and `spec.l[0].x`. Keys are not escaped in paths.
    """
    paths: list[str] | None = None if unknown is None else []
    pruner = _Pruner(paths)
    if is_root and obj.__class__ is dict:
        pruner.fields(obj, schema, "", embedded=True)
    else:
        pruner.value(obj, schema, "")
    if unknown is not None and paths is not None:
        unknown.extend(sorted(paths))


class _Pruner:
    """Recursion follows the schema, whose depth is bounded; values without a schema are walked iteratively."""

    def __init__(self, paths: list[str] | None) -> None:
        self.paths = paths
        self.characters = 0

    def value(self, value: Json, schema: Structural | None, path: str) -> None:
        kind = value.__class__
        if kind is dict:
            if schema is None:
                for name in value:
                    self.record(path, name)
                value.clear()
            else:
                self.fields(value, schema, path, embedded=schema.embedded_resource)
        elif kind is list:
            if schema is None or schema.items is None:
                if schema is None or not schema.preserve_unknown_fields:
                    self.without_schema(value, path)
            else:
                for position, item in enumerate(value):
                    self.item(item, schema, index(path, position))

    def item(self, item: Json, schema: Structural, path: str) -> None:
        if schema.preserve_unknown_fields and schema.items is not None and not schema.items.preserve_unknown_fields:
            # A list that preserves also preserves the unknown fields of its items.
            self.preserving(item, schema.items, path)
        else:
            self.value(item, schema.items, path)

    def preserving(self, value: Json, schema: Structural, path: str) -> None:
        """Keeps the unknown fields of `value`, and of the items if it is a list of lists."""
        if value.__class__ is dict:
            self.named_fields(value, schema, path, embedded=schema.embedded_resource)
        elif value.__class__ is list and schema.items is not None:
            for position, item in enumerate(value):
                self.preserving(item, schema.items, index(path, position))

    def fields(self, value: dict[str, Json], schema: Structural, path: str, *, embedded: bool) -> None:
        if not schema.preserve_unknown_fields and schema.additional_properties is None:
            dropped = [
                name for name in value if name not in schema.properties and not (embedded and name in META_FIELDS)
            ]
            for name in dropped:
                if path or name not in META_FIELDS:
                    self.record(path, name)
                del value[name]
        self.named_fields(value, schema, path, embedded=embedded)

    def named_fields(self, value: dict[str, Json], schema: Structural, path: str, *, embedded: bool) -> None:
        properties = schema.properties
        additional = schema.additional_properties
        for name, inner in value.items():
            if inner.__class__ is not dict and inner.__class__ is not list:
                continue
            if embedded and name in META_FIELDS:
                continue
            property_schema = properties.get(name)
            if property_schema is not None:
                self.value(inner, property_schema, child(path, name))
            elif additional is not None:
                values = additional if isinstance(additional, Structural) else None
                self.value(inner, values, child(path, name))

    def without_schema(self, value: list[Json], path: str) -> None:
        pending: list[tuple[list[Json], str]] = [(value, path)]
        while pending:
            items, where = pending.pop()
            for position, item in enumerate(items):
                if item.__class__ is list:
                    # Paths are only built while they are still collected, as they grow with the depth.
                    known = self.paths is not None and self.characters < _MAX_PATHS_CHARACTERS
                    self.characters += len(where) if known else 0
                    pending.append((item, f"{where}[{position}]" if known else ""))
                elif item.__class__ is dict and item:
                    for name in item:
                        self.record(f"{where}[{position}]", name)
                    item.clear()

    def record(self, path: str, name: str) -> None:
        if self.paths is None or self.characters >= _MAX_PATHS_CHARACTERS:
            return
        text = child(path, name)
        self.characters += len(text)
        self.paths.append(text)
