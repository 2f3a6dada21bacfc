"""Rules compiled to closures on decoded JSON. Closures change an object in place and ignore values of other shapes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from registry.codec.json_size import charge_json
from registry.conversion.declarative.model import ConversionRule, Default, Drop, MapValues, Move
from registry.conversion.declarative.paths import STAR, Path, split

Json = Any
Step = Callable[[Json], None]


def compile_rule(rule: ConversionRule) -> Step:
    """Compiles any rule but Set, which needs the object as it was before the step (plan.py)."""
    match rule:
        case Move(_, source, target):
            within, inner = split(source)
            return _each(within, _move(inner, split(target)[1]))
        case MapValues(_, path, pairs):
            return _each(path[:-1], _map(path[-1], {(type(old), old): new for old, new in pairs}))
        case Default(_, path, value):
            within, inner = split(path)
            return _each(within, _default(inner, value))
        case Drop(_, path):
            return _each(path[:-1], _drop(path[-1]))
    raise AssertionError(rule)


def put(obj: Json, path: Path, value: Json) -> None:
    """Sets a value, creating missing objects on the path; does nothing where the path leads through another value."""
    for name in path[:-1]:
        inner = obj.get(name)
        if inner is None:
            inner = obj[name] = {}
        if inner.__class__ is not dict:
            return
        obj = inner
    obj[path[-1]] = value


def _each(within: Path, step: Step) -> Step:
    """Applies `step` to each value that the path selects."""
    if not within:
        return step
    if STAR not in within:

        def one(obj: Json) -> None:
            for name in within:
                if obj.__class__ is not dict:
                    return
                obj = obj.get(name)
            if obj is not None:
                step(obj)

        return one

    def each(obj: Json) -> None:
        for element in values_at(obj, within):
            step(element)

    return each


def values_at(obj: Json, path: Path) -> Iterator[Json]:
    """The values that the path selects."""
    if not path:
        yield obj
        return
    name, rest = path[0], path[1:]
    if name == STAR:
        for inner in obj if obj.__class__ is list else list(obj.values()) if obj.__class__ is dict else ():
            yield from values_at(inner, rest)
    elif obj.__class__ is dict and name in obj:
        yield from values_at(obj[name], rest)


def _move(source: Path, target: Path) -> Step:
    above, name = source[:-1], source[-1]
    same = target[:-1] == above
    new_name = target[-1]

    def move(obj: Json) -> None:
        holder = obj
        for step in above:
            if holder.__class__ is not dict:
                return
            holder = holder.get(step)
        if holder.__class__ is not dict or name not in holder:
            return
        value = holder.pop(name)
        if same:
            holder[new_name] = value
            return
        # Objects that this leaves empty are removed too; where they were empty before, the complement restores them.
        remove_empty(obj, above)
        put(obj, target, value)

    return move


def remove_empty(obj: Json, path: Sequence[str]) -> None:
    """Removes the empty objects of the path, innermost first."""
    holders = [obj]
    for name in path[:-1]:
        holders.append(holders[-1][name])
    for holder, name in zip(reversed(holders), reversed(path), strict=False):  # the object itself if there is no path
        if holder[name]:
            return
        del holder[name]


def _map(name: str, values: dict[tuple[type, Json], Json]) -> Step:
    if name == STAR:

        def each(obj: Json) -> None:
            if obj.__class__ is list:
                obj[:] = [_map_value(value, values) for value in obj]
            elif obj.__class__ is dict:
                for key, value in obj.items():
                    obj[key] = _map_value(value, values)

        return each

    def one(obj: Json) -> None:
        if obj.__class__ is dict and name in obj:
            obj[name] = _map_value(obj[name], values)

    return one


def _map_value(value: Json, values: dict[tuple[type, Json], Json]) -> Json:
    kind = value.__class__
    return value if kind is dict or kind is list else values.get((kind, value), value)


def _default(path: Path, value: Json) -> Step:
    scalar = not isinstance(value, dict | list)

    def default(obj: Json) -> None:
        holder = obj
        for name in path:
            if holder.__class__ is not dict:
                return
            holder = holder.get(name)
            if holder is None:
                charge_json(value)
                put(obj, path, value if scalar else copy.deepcopy(value))
                return

    return default


def _drop(name: str) -> Step:
    def drop(obj: Json) -> None:
        if obj.__class__ is dict:
            obj.pop(name, None)

    return drop
