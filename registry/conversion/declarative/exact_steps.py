"""The steps of ways that are undone by their way back (exact.py), as closures on decoded JSON.

A closure changes an object in place and says whether the way back would give it back as it was. True is a promise;
after False the object is of no use any more, and is converted anew the complete way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

from registry.conversion.declarative.paths import STAR, Path

Json = Any
ExactStep = Callable[[Json], bool]

_NOTHING: Final = object()


def common_steps(path: Path, other: Path) -> int:
    """How many steps both begin with."""
    return next((i for i, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), min(len(path), len(other)))


def each_within(path: Path, step: ExactStep) -> ExactStep:
    """`step` on each of what the path leads to, which must be objects to be looked into."""
    if not path:
        return step
    place = path.index(STAR) if STAR in path else len(path)
    names, rest = path[:place], path[place:]
    if not rest:
        def one(obj: Json) -> bool:
            for name in names:
                if obj.__class__ is not dict:
                    return True
                obj = obj.get(name)
            return obj.__class__ is not dict or step(obj)

        return one
    inner = each_within(rest[1:], step)

    def each(obj: Json) -> bool:
        for name in names:
            if obj.__class__ is not dict:
                return True
            obj = obj.get(name)
        for element in obj if obj.__class__ is list else obj.values() if obj.__class__ is dict else ():
            if (element.__class__ is dict or element.__class__ is list) and not inner(element):
                return False
        return True

    return each


def renamed(name: str, new_name: str) -> ExactStep:
    def rename(obj: Json) -> bool:
        if obj.__class__ is not dict:
            return True
        if new_name in obj:
            return False
        if name in obj:
            obj[new_name] = obj.pop(name)
        return True

    return rename


def moved(source: Path, target: Path) -> ExactStep:
    *above, name = source
    *over, new_name = target
    common = common_steps(source, target)

    def move(obj: Json) -> bool:
        if obj.__class__ is not dict:
            return True
        holders = [obj]
        for step in above:
            obj = obj.get(step)
            if obj.__class__ is not dict:
                return not _stands(holders[0], target)
            holders.append(obj)
        if name not in obj:
            return not _stands(holders[0], target)
        value = obj.pop(name)
        for i in range(len(above), 0, -1):      # what it was the last of goes with it
            if holders[i]:
                break
            del holders[i - 1][above[i - 1]]
        obj = holders[0]
        for i, step in enumerate(over):
            inner = obj.get(step)
            if inner is None:
                if step in obj:
                    return False
                inner = obj[step] = {}
            elif inner.__class__ is not dict or (not inner and i >= common):
                return False        # an empty one would not come back
            obj = inner
        if new_name in obj:
            return False
        obj[new_name] = value
        return True

    return move


def _stands(obj: Json, path: Path) -> bool:
    for name in path[:-1]:
        obj = obj.get(name)
        if obj.__class__ is not dict:
            return False
    return path[-1] in obj


def mapped_values(path: Path, pairs: Sequence[tuple[Json, Json]], mirrored: Sequence[tuple[Json, Json]]) -> ExactStep:
    there = {(old.__class__, old): new for old, new in pairs}
    again = {(old.__class__, old): new for old, new in mirrored}
    values: dict[tuple[type, Json], Json] = {}
    for key in (*there, *again):
        new = there.get(key, key[1])
        came = again.get((new.__class__, new), new)
        values[key] = new if (came.__class__, came) == key else _NOTHING
    texts = {value: new for (kind, value), new in values.items() if kind is str}
    only_texts = len(texts) == len(values)
    name = path[-1]

    def mapped(value: Json) -> Json:
        kind = value.__class__
        if kind is str:
            return texts.get(value, value)
        if value is None:
            return _NOTHING     # what the schema makes of it is not known here
        return value if only_texts or kind is dict or kind is list else values.get((kind, value), value)

    def one(obj: Json) -> bool:
        if obj.__class__ is dict and name in obj:
            found = mapped(obj[name])
            if found is _NOTHING:
                return False
            obj[name] = found
        return True

    def each(obj: Json) -> bool:
        if obj.__class__ is list:
            obj[:] = [mapped(value) for value in obj]
            return _NOTHING not in obj
        if obj.__class__ is dict:
            for key, value in obj.items():
                obj[key] = mapped(value)
            return _NOTHING not in obj.values()
        return True

    if name != STAR:
        return each_within(path[:-1], one)
    return _at(path[:-1], each)


def _at(path: Path, step: ExactStep) -> ExactStep:
    """`step` on what stands there itself, object or list."""
    *above, name = path

    def at(obj: Json) -> bool:
        if obj.__class__ is dict:
            found = obj.get(name)
            return found is None or step(found)
        return True

    if name == STAR:
        def elements(obj: Json) -> bool:
            return all(step(element) for element in (obj if obj.__class__ is list else obj.values()))

        return _at(tuple(above), elements)
    return each_within(tuple(above), at)


def filled_in(path: Path, value: Json, *, pruned: bool) -> ExactStep:
    """`pruned`: the schema at the beginning of the way removes it from its place again."""
    *above, name = path
    scalar = not isinstance(value, dict | list)

    def default(obj: Json) -> bool:
        for step in above:
            if obj.__class__ is not dict:
                return True
            obj = obj.get(step)
            if obj is None:
                return False
        if obj.__class__ is dict and obj.get(name) is None:
            if not pruned or name in obj:
                return False
            obj[name] = value if scalar else copy.deepcopy(value)
        return True

    return default


def present(path: Path) -> ExactStep:
    *above, name = path

    def present(obj: Json) -> bool:
        for step in above:
            if obj.__class__ is not dict:
                return False
            obj = obj.get(step)
        return obj.__class__ is dict and obj.get(name) is not None

    return present


def taken_out(path: Path, value: Json) -> ExactStep:
    *above, name = path

    def taken_out(obj: Json) -> bool:
        for step in above:
            if obj.__class__ is not dict:
                return False
            obj = obj.get(step)
        if obj.__class__ is not dict:
            return False
        found = obj.pop(name, None)
        return found.__class__ is value.__class__ and bool(found == value) and found.__class__ not in (dict, list)

    return taken_out


def absent(name: str) -> ExactStep:
    return lambda obj: obj.__class__ is not dict or name not in obj


def without(name: str) -> ExactStep:
    def taken(obj: Json) -> bool:
        if obj.__class__ is dict:
            obj.pop(name, None)
        return True

    return taken
