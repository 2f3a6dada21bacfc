"""The steps of lossless paths (lossless.py), on decoded JSON.

A step changes an object in place and returns whether converting back would restore it. True is a guarantee; after
False the object must be discarded and converted again in both directions. Moves, renames and maps are generated as
lines (codegen.py) that end a function with False; the others are closures.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

from registry.codec.json_size import charge_json
from registry.conversion.declarative.codegen import Lines, Write
from registry.conversion.declarative.paths import STAR, Path
from registry.conversion.declarative.steps import remove_empty

Json = Any
LosslessStep = Callable[[Json], bool]

_NOTHING: Final = object()


def common_steps(path: Path, other: Path) -> int:
    """The length of the common prefix."""
    return next((i for i, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), min(len(path), len(other)))


def each_within(path: Path, step: LosslessStep) -> LosslessStep:
    """Applies `step` to each object or list that the path selects."""
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


def call_step(step: LosslessStep) -> Write:
    def write(lines: Lines, obj: str, depth: int) -> None:
        lines.add(depth, f"if not {lines.value(step)}({obj}):", "    return False")

    return write


def write_within(path: Path, write: Write) -> Write:
    return lambda lines, obj, depth: lines.within(depth, obj, path, write)


def rename(name: str, new_name: str) -> Write:
    def write(lines: Lines, obj: str, depth: int) -> None:
        old, new = lines.value(name), lines.value(new_name)
        lines.add(
            depth,
            f"if {new} in {obj}:",
            "    return False",
            f"if {old} in {obj}:",
            f"    {obj}[{new}] = {obj}.pop({old})",
        )

    return write


def move(source: Path, target: Path) -> Write:
    common = common_steps(source, target)
    return write_within(source[:common], _move_across(source[common:], target[common:]))


def _move_across(source: Path, target: Path) -> Write:
    """A move between paths without a common prefix: the object where both begin is not emptied by it."""
    *above, name = source
    *over, new_name = target

    def write(lines: Lines, obj: str, depth: int) -> None:
        old, new, moving = lines.value(name), lines.value(new_name), lines.variable()
        holder = lines.at(depth, obj, above)
        lines.add(depth, f"if {holder}.__class__ is dict and {old} in {holder}:", f"    {moving} = {holder}.pop({old})")
        if above:
            lines.add(depth + 1, f"if not {holder}:", f"    {lines.value(remove_empty)}({obj}, {lines.value(above)})")
        holder = obj
        for step in map(lines.value, over):
            inner = lines.variable()
            lines.add(
                depth + 1,
                f"{inner} = {holder}.get({step})",
                f"if {inner} is None:",
                f"    if {step} in {holder}:",
                "        return False",
                f"    {inner} = {holder}[{step}] = {{}}",
                f"elif {inner}.__class__ is not dict or not {inner}:",
                "    return False",
            )  # an empty object would not be restored
            holder = inner
        lines.add(depth + 1, f"if {new} in {holder}:", "    return False", f"{holder}[{new}] = {moving}")
        exists = f"{lines.value(_exists)}({obj}, {lines.value(target)})" if over else f"{new} in {obj}"
        lines.add(depth, f"elif {exists}:", "    return False")

    return write


def _exists(obj: Json, path: Path) -> bool:
    for name in path[:-1]:
        obj = obj.get(name)
        if obj.__class__ is not dict:
            return False
    return path[-1] in obj


def map_values(path: Path, pairs: Sequence[tuple[Json, Json]], mirrored: Sequence[tuple[Json, Json]]) -> Write:
    there = {(old.__class__, old): new for old, new in pairs}
    again = {(old.__class__, old): new for old, new in mirrored}
    values: dict[tuple[type, Json], Json] = {}
    for key in (*there, *again):
        new = there.get(key, key[1])
        came = again.get((new.__class__, new), new)
        values[key] = new if (came.__class__, came) == key else _NOTHING
    texts = {value: new for (kind, value), new in values.items() if kind is str}
    *above, name = path
    if name == STAR:
        return call_step(_at(tuple(above), _map_each(values)))
    if len(texts) == len(values):
        return write_within(tuple(above), _map_text(name, texts))
    return call_step(each_within(tuple(above), _map_one(name, values)))


def _map_text(name: str, texts: dict[str, Json]) -> Write:
    def write(lines: Lines, obj: str, depth: int) -> None:
        value, key, new = lines.variable(), lines.value(name), lines.value(texts)
        lines.add(
            depth,
            f"{value} = {obj}.get({key})",
            f"if {value}.__class__ is str:",
            f"    if {value} in {new}:",
            f"        {value} = {new}[{value}]",
            f"        if {value} is {lines.value(_NOTHING)}:",
            "            return False",
            f"        {obj}[{key}] = {value}",
            f"elif {value} is None and {key} in {obj}:",
            "    return False",
        )

    return write


def _map_value(value: Json, values: dict[tuple[type, Json], Json]) -> Json:
    if value is None:
        return _NOTHING  # the result of pruning is not known here
    kind = value.__class__
    return value if kind is dict or kind is list else values.get((kind, value), value)


def _map_one(name: str, values: dict[tuple[type, Json], Json]) -> LosslessStep:
    def one(obj: Json) -> bool:
        if obj.__class__ is dict and name in obj:
            mapped = _map_value(obj[name], values)
            if mapped is _NOTHING:
                return False
            obj[name] = mapped
        return True

    return one


def _map_each(values: dict[tuple[type, Json], Json]) -> LosslessStep:
    def each(obj: Json) -> bool:
        if obj.__class__ is list:
            obj[:] = [_map_value(value, values) for value in obj]
            return _NOTHING not in obj
        if obj.__class__ is dict:
            for key, value in obj.items():
                obj[key] = _map_value(value, values)
            return _NOTHING not in obj.values()
        return True

    return each


def _at(path: Path, step: LosslessStep) -> LosslessStep:
    """Applies `step` to the value at the path itself, an object or a list."""
    *above, name = path

    def at(obj: Json) -> bool:
        if obj.__class__ is dict:
            value = obj.get(name)
            return value is None or step(value)
        return True

    if name == STAR:

        def elements(obj: Json) -> bool:
            return all(step(element) for element in (obj if obj.__class__ is list else obj.values()))

        return _at(tuple(above), elements)
    return each_within(tuple(above), at)


def fill_in(path: Path, value: Json, *, pruned: bool) -> LosslessStep:
    """`pruned`: the source schema removes the value from this place again."""
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
            charge_json(value)
            obj[name] = value if scalar else copy.deepcopy(value)
        return True

    return default


def present(path: Path) -> LosslessStep:
    *above, name = path

    def present(obj: Json) -> bool:
        for step in above:
            if obj.__class__ is not dict:
                return False
            obj = obj.get(step)
        return obj.__class__ is dict and obj.get(name) is not None

    return present


def remove_value(path: Path, value: Json) -> LosslessStep:
    *above, name = path

    def remove_expected(obj: Json) -> bool:
        for step in above:
            if obj.__class__ is not dict:
                return False
            obj = obj.get(step)
        if obj.__class__ is not dict:
            return False
        removed = obj.pop(name, None)
        return removed.__class__ is value.__class__ and bool(removed == value) and removed.__class__ not in (dict, list)

    return remove_expected


def absent(name: str) -> LosslessStep:
    return lambda obj: obj.__class__ is not dict or name not in obj


def without(name: str) -> LosslessStep:
    def remove(obj: Json) -> bool:
        if obj.__class__ is dict:
            obj.pop(name, None)
        return True

    return remove
