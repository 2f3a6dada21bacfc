"""Ratcheting: correlates parts of the new object with parts of the old one, and compares them.

An update is not rejected for errors of unchanged values. Parts correlate by property name, by map key and by the keys
of a list of type map; items of other lists do not, they are compared with the list as a whole. An object with fields
that the schema does not name never counts as unchanged, as in kube-apiserver.

Follows KEP-4008 and apiserver pkg/cel/common/equality.go at 1.36.
"""

from __future__ import annotations

from registry.schema.model import Structural
from registry.schema.values import Json, same


class Correlation:
    """A part of the new object and its counterpart in the old one; lives for one validation."""

    __slots__ = ("_children", "_equal", "_old_by_keys", "new", "old", "schema")

    def __init__(self, new: Json, old: Json, schema: Structural) -> None:
        self.new = new
        self.old = old
        self.schema = schema
        self._children: dict[str | int, Correlation] = {}
        self._equal: bool | None = None
        self._old_by_keys: dict[tuple[Json, ...], Json] | None = None

    def key(self, name: str) -> Correlation | None:
        """The correlation of a property or of a map's value; None without a counterpart."""
        child = self._children.get(name)
        if child is not None:
            return child
        if self.new.__class__ is not dict or self.old.__class__ is not dict:
            return None
        if name not in self.new or name not in self.old:
            return None
        schema = self.schema.properties.get(name) or self.schema.additional_properties
        if not isinstance(schema, Structural):
            return None
        child = self._children[name] = Correlation(self.new[name], self.old[name], schema)
        return child

    def index(self, position: int) -> Correlation | None:
        """The correlation of a list's item, for lists of type map."""
        child = self._children.get(position)
        if child is not None:
            return child
        if self.schema.items is None or self.schema.list_type != "map" or self.old.__class__ is not list:
            return None
        item = self.new[position]
        keys = self._keys(item)
        old = self._old_items().get(keys) if keys is not None else None
        if old is None:
            return None
        child = self._children[position] = Correlation(item, old, self.schema.items)
        return child

    def equal(self) -> bool:
        """Whether nothing changed. Items of a list of type map may be reordered."""
        if self._equal is None:
            self._equal = self._compare()
        return self._equal

    def _compare(self) -> bool:
        new, old = self.new, self.old
        if new.__class__ is not old.__class__:
            return False
        if new.__class__ is list:
            if len(new) != len(old):
                return False
            for position in range(len(new)):
                item = self.index(position)
                if item is None:
                    return self.schema.list_type != "map" and same(new, old)
                if not item.equal():
                    return False
            return True
        if new.__class__ is dict:
            if len(new) != len(old):
                return False
            for name in new:
                inner = self.key(name)
                if inner is None or not inner.equal():
                    return False
            return True
        return same(new, old)

    def _old_items(self) -> dict[tuple[Json, ...], Json]:
        if self._old_by_keys is None:
            self._old_by_keys = {}
            for item in self.old:
                keys = self._keys(item)
                if keys is not None:
                    self._old_by_keys.setdefault(keys, item)
        return self._old_by_keys

    def _keys(self, item: Json) -> tuple[Json, ...] | None:
        """The key of an item in a list of type map: the values of its keys with their types, defaults included."""
        if item.__class__ is not dict:
            return None
        values: list[Json] = []
        for name in self.schema.list_map_keys:
            value = item.get(name)
            if value.__class__ is list or value.__class__ is dict:
                return None
            values.append((value.__class__, value))
        return tuple(values)
