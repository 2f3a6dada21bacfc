"""Maps that expressions construct."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from registry.budget import spend
from registry.cel.common.values import MAP, MISSING, MapValue, Uint, Value, equal, register_type


class Map(MapValue):
    """A map constructed by an expression. Keys are bool, int, uint, double (for look-ups) and string.

    int, uint and double keys of the same number are the same key, as in Python; bool keys are distinct from them. A
    key of another type, which only a dynamic one can have, is equal to nothing but itself.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[Any, tuple[Value, Value]] = {}

    @staticmethod
    def of(entries: Sequence[tuple[Value, Value]]) -> Map:
        result = Map()
        for key, value in entries:
            result.insert(key, value)
        return result

    @staticmethod
    def of_strings(entries: dict[str, Value]) -> Map:
        result = Map()
        result._entries = {key: (key, value) for key, value in entries.items()}
        return result

    def insert(self, key: Value, value: Value) -> None:
        self._entries[_hashable(key)] = (key, value)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Value) -> Value:
        entry = self._entries.get(_hashable(key))
        return MISSING if entry is None else entry[1]

    def all_keys(self) -> list[Value]:
        return [key for key, _ in self._entries.values()]

    def items(self) -> Iterator[tuple[Value, Value]]:
        return iter(self._entries.values())

    def copy(self) -> Map:
        result = Map()
        result._entries = dict(self._entries)
        return result

    def equals(self, other: Value) -> bool:
        if not isinstance(other, MapValue) or len(self) != len(other):
            return False
        spend(len(self))
        for key, value in self._entries.values():
            theirs = other.find(key)
            if theirs is MISSING or not equal(value, theirs):
                return False
        return True


def _hashable(key: Value) -> Any:
    if type(key) in _PLAIN:
        return key
    return (key,) if type(key) is bool else (Map, id(key))


_PLAIN = frozenset((str, int, Uint, float, type(None)))


register_type(Map, MAP)
