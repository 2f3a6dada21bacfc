"""The functions that the macros transformMap and transformMapEntry expand to.

Follows cel-go ext/comprehensions.go.
"""

from __future__ import annotations

from registry.budget import spend
from registry.cel.common.maps import Map
from registry.cel.common.values import EvalError, MapValue, Missing, Value, no_such_overload
from registry.cel.ext.conversions import plain_text
from registry.cel.ext.table import function


@function("cel.@mapInsert", 2, 3)
def map_insert(target: Value, key: Value, value: Value = Missing) -> Map:
    """Adds an entry, or the entries of a second map, to `target` in place, which a loop has created; returns it."""
    if type(target) is not Map:
        raise no_such_overload()
    if value is not Missing:
        insert(target, key, value)
    elif isinstance(key, MapValue):
        spend(len(key))
        for name in key.all_keys():
            insert(target, name, key.find(name))
    else:
        raise no_such_overload()
    return target


def insert(target: Map, key: Value, value: Value) -> None:
    if type(target.find(key)) is not Missing:
        raise EvalError(f"insert failed: key {key_text(key)} already exists")
    target.insert(key, value)


def key_text(key: Value) -> str:
    """A key as Go's %v prints it, for errors."""
    return plain_text(key) or str(key)
