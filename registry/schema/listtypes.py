"""Validation of x-kubernetes-list-type: a set has no duplicate values, a map no duplicate keys.

Follows apiextensions-apiserver pkg/apiserver/schema/listtype/validation.go. 1 and 1.0 are different values; within
objects and lists they are equal, since those are compared by their JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from registry.codec.go_text import go_json
from registry.schema.field import MAX_ERRORS, FieldError, child, duplicate, index, invalid, key
from registry.schema.model import Structural, nodes_with
from registry.schema.values import Json


class ListTypes:
    """The checks of one schema; `validate` returns the errors of an object."""

    def __init__(self, schema: Structural) -> None:
        self._schema = schema
        self._nodes = nodes_with(schema, lambda node: node.list_type in ("set", "map"))
        # The properties of each of them in which there is something to check.
        self._properties = {
            node: [(name, inner) for name, inner in node.properties.items() if inner in self._nodes]
            for node in self._nodes
        }

    def validate(self, obj: Json, path: str = "") -> list[FieldError]:
        errors: list[FieldError] = []
        if self._schema in self._nodes:
            self._value(obj, self._schema, path, errors)
        return errors

    def is_valid(self, obj: Json) -> bool:
        return self._schema not in self._nodes or self._is_valid(obj, self._schema, _is_unique)

    def has_plain_keys(self, obj: Json) -> bool:
        """Whether the object is valid, and each item of a list of type map is an object that is found by its key."""
        return self._schema not in self._nodes or self._is_valid(obj, self._schema, _is_plainly_unique)

    def _is_valid(self, value: Json, schema: Structural, is_unique: Callable[[list[Json], Structural], bool]) -> bool:
        """Checks a value whose schema is one of the nodes."""
        nodes = self._nodes
        if value.__class__ is dict:
            for name, inner_schema in self._properties[schema]:
                inner = value.get(name)
                if inner and not self._is_valid(inner, inner_schema, is_unique):
                    return False
            additional = schema.additional_properties
            if isinstance(additional, Structural) and additional in nodes:
                return all(self._is_valid(inner, additional, is_unique) for inner in value.values())
        elif value.__class__ is list:
            if schema.list_type in ("set", "map") and not is_unique(value, schema):
                return False
            if schema.items is not None and schema.items in nodes:
                items = schema.items
                for item in value:  # a generator would double the time
                    if not self._is_valid(item, items, is_unique):
                        return False
        return True

    def _value(self, value: Json, schema: Structural, path: str, errors: list[FieldError]) -> None:
        nodes = self._nodes
        if value.__class__ is dict:
            additional = schema.additional_properties
            for name, inner in value.items():
                if isinstance(additional, Structural) and additional in nodes:
                    self._value(inner, additional, key(path, name), errors)
                inner_schema = schema.properties.get(name)
                if inner_schema is not None and inner_schema in nodes:
                    self._value(inner, inner_schema, child(path, name), errors)
        elif value.__class__ is list:
            room = MAX_ERRORS + 1 - len(errors)
            if schema.list_type == "set":
                errors.extend(duplicate(index(path, place), value[place]) for place in islice(_doubles(value), room))
            elif schema.list_type == "map":
                errors.extend(islice(_map_errors(value, schema, path), room))
            if schema.items is not None and schema.items in nodes:
                for place, item in enumerate(value):
                    if len(errors) > MAX_ERRORS:
                        return
                    self._value(item, schema.items, index(path, place), errors)


def _is_unique(items: list[Json], schema: Structural) -> bool:
    if _is_plainly_unique(items, schema):
        return True
    if schema.list_type == "set":
        return next(_doubles(items), None) is None
    return next(_map_errors(items, schema, ""), None) is None


def _is_plainly_unique(items: list[Json], schema: Structural) -> bool:
    """Fast path: False also for values that Python treats as equal (1 and True) or cannot hash."""
    try:
        if schema.list_type == "set":
            return len(set(items)) == len(items)
        names = schema.list_map_keys
        if len(names) == 1:
            name = names[0]
            return len({item[name] for item in items}) == len(items)
        return len({tuple([item.get(name) for name in names]) for item in items}) == len(items)
    except (TypeError, KeyError, AttributeError):
        return False


def _doubles(items: list[Json]) -> Iterator[int]:
    """The indices at which a value occurs for the second time; a third is not reported."""
    seen: dict[object, int] = {}
    for place, item in enumerate(items):
        compound = item.__class__ is dict or item.__class__ is list
        mark = (True, go_json(item)) if compound else (item.__class__, item)
        times = seen[mark] = seen.get(mark, 0) + 1
        if times == 2:
            yield place


def _map_errors(items: list[Json], schema: Structural, path: str) -> Iterator[FieldError]:
    for place, item in enumerate(items):
        if item is not None and item.__class__ is not dict:
            yield invalid(index(path, place), item, "must be an object for an array of list-type map")
            return
    names = schema.list_map_keys
    keys = [{name: item[name] for name in names if name in item} if item is not None else {} for item in items]
    # A single key is compared by its value, so 1 and 1.0 differ; several keys are compared by their JSON.
    marks = [key[names[0]] if key else _NO_KEY for key in keys] if len(names) == 1 else list(keys)
    for place in _doubles(marks):
        yield duplicate(index(path, place), keys[place])


_NO_KEY = object()  # the key of an item without one
