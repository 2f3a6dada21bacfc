"""Ways that are undone by their way back: proven by the schemas for all objects but some, which tell themselves apart.

The way back is the judge of every conversion (plan.py), and costs as much as the way there. Here it is left out:
`exact_steps` gives the rules of a way as closures that say of each object whether the other way would give it back as
it was, and whether the schema at its end would prune anything. True is a promise; a False only means that the way back
must be walked, so whatever is hard to prove is False, or no way at all (None).

What is proven: moves and maps that stand mirrored in the way back; defaults that fill in what the other schema does not
know, or that give back what is left out here. Each step is undone by its twin, so all of them are, last first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from registry.conversion.declarative.model import Default, Drop, MapValues, Move, Rule, Set, Way, turned_round
from registry.conversion.declarative.paths import STAR, Path, split
from registry.conversion.declarative.shapes import (
    ShapeError,
    Verdict,
    apply_rule,
    find_node,
    is_emptied,
    take_node,
)
from registry.schema.model import Structural

Json = Any
Schema = dict[str, Any]
# Changes an object in place; False: it may not come back as it was.
ExactStep = Callable[[Json], bool]

_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
_HEAD: Final = ("apiVersion", "kind", "metadata")
_NOTHING: Final = object()


def exact_steps(way: Way, back: Way, source: Mapping[str, Json], target: Mapping[str, Json],
                structural: Structural) -> list[ExactStep] | None:
    """The steps of `way` for objects that the schema `source` has pruned; None where nothing can be proven."""
    if any(isinstance(rule, Set | Drop) for rule in (*way.rules, *back.rules)) or not _are_mirrored(way, back):
        return None
    shape, source, target = copy.deepcopy(dict(source)), dict(source), dict(target)
    try:
        steps = _left_out(way, back, shape, target)
        for rule in way.rules:
            apply_rule(rule, shape, target, structural, Verdict())
            step = _step(rule, way, back, source)
            if step is None:
                return None
            steps.append(step)
    except ShapeError:
        return None
    emptied: list[Path] = []
    if not _fits(shape, target, (), emptied):
        return None
    return [*steps, *(_within(path[:-1], _absent(path[-1])) for path in emptied)]


def _are_mirrored(way: Way, back: Way) -> bool:
    """Whether the moves and maps of one are those of the other turned round, whatever their values become."""
    there = [_place(rule) for rule in turned_round(way.rules)]
    return there == [_place(rule) for rule in back.rules if isinstance(rule, Move | MapValues)]


def _place(rule: Rule) -> tuple[Path, ...]:
    return (rule.source, rule.target) if isinstance(rule, Move) else (rule.path,)


def _left_out(way: Way, back: Way, shape: Schema, target: Schema) -> list[ExactStep]:
    """Of what the way back fills in: it is there, or it is what would be filled in, and left out."""
    steps = []
    for rule in back.rules:
        if isinstance(rule, Default):
            if _meets_another(rule, way, back):
                raise ShapeError
            known = find_node(target, rule.path) is not None
            if not known:
                take_node(shape, rule.path)
            within, inner = split(rule.path)
            steps.append(_within(within, _present(inner) if known else _taken_out(inner, rule.value)))
    return steps


def _step(rule: Rule, way: Way, back: Way, source: Schema) -> ExactStep | None:
    match rule:
        case Move(_, old, new):
            within, inner = split(old)
            to = split(new)[1]
            if _common(inner, to) == min(len(inner), len(to)):
                return None     # into itself
            if inner[:-1] == to[:-1]:
                return _within((*within, *inner[:-1]), _rename(inner[-1], to[-1]))
            return _within(within, _move(inner, to))
        case MapValues(_, path, pairs):
            mirrored = [r.pairs for r in back.rules if isinstance(r, MapValues) and r.path == path]
            return _map(path, pairs, mirrored[0]) if len(mirrored) == 1 else None
        case Default(_, path, value) if not _meets_another(rule, way, back):
            within, inner = split(path)
            holder = find_node(source, path[:-1])
            pruned = holder is not None and _is_closed(holder) and path[-1] not in (holder.get("properties") or {}) \
                and not _is_made(path[:-1], way)
            return _within(within, _default(inner, value, pruned=pruned))
    return None


def _meets_another(rule: Default, way: Way, back: Way) -> bool:
    """Whether another rule names something on the path, or in it."""
    paths = [path for other in (*way.rules, *back.rules) if other is not rule for path in _place(other)]
    return any(all(a in (b, STAR) or b == STAR for a, b in zip(path, rule.path, strict=False)) for path in paths)


def _is_made(holder: Path, way: Way) -> bool:
    """Whether a move may make the object: on the way back it goes with what was moved, unless something is left."""
    for rule in way.rules:
        if isinstance(rule, Move):
            target = rule.target
            if _common(rule.source, target) < len(holder) < len(target) and holder == target[:len(holder)]:
                return True
    return False


def _common(path: Path, other: Path) -> int:
    """How many steps both begin with."""
    return next((i for i, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), min(len(path), len(other)))


def _is_closed(node: Schema) -> bool:
    return node.get("type") == "object" and not node.get("additionalProperties") and not node.get(_KEEPS)


# -- whether the target's schema prunes nothing
def _fits(shape: Schema, target: Schema, path: Path, emptied: list[Path]) -> bool:
    """`emptied` gets the paths of objects that are pruned where rules have left them behind, empty."""
    if not _same_kind(shape, target):
        return False
    items, wanted = shape.get("items"), target.get("items")
    if (items is None) != (wanted is None) or (items and not _fits(items, wanted or {}, (*path, STAR), emptied)):
        return False
    inner, others = shape.get("properties") or {}, target.get("properties") or {}
    values, allowed = shape.get("additionalProperties"), target.get("additionalProperties")
    if shape.get(_KEEPS) and (not target.get(_KEEPS) or not inner.keys() >= others.keys()):
        return False
    if values and (not allowed or (isinstance(values, dict) != isinstance(allowed, dict))):
        return False
    if isinstance(values, dict) and isinstance(allowed, dict) and not _fits(values, allowed, (*path, STAR), emptied):
        return False
    for name, node in inner.items():
        if not path and name in _HEAD:
            continue
        other = others.get(name)
        if other is not None:
            if not _fits(node, other, (*path, name), emptied):
                return False
        elif is_emptied(node):
            emptied.append((*path, name))
        else:
            return False
    return True


def _same_kind(shape: Schema, target: Schema) -> bool:
    kind, wanted = shape.get("type"), target.get("type")
    same = kind == wanted or (kind == "integer" and wanted == "number")
    if shape.get("nullable") and not target.get("nullable"):
        return False
    return same and all(shape.get(f"x-kubernetes-{name}") == target.get(f"x-kubernetes-{name}")
                        for name in ("embedded-resource", "int-or-string"))


# -- steps
def _within(path: Path, step: ExactStep) -> ExactStep:
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
    inner = _within(rest[1:], step)

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


def _rename(name: str, new_name: str) -> ExactStep:
    def rename(obj: Json) -> bool:
        if obj.__class__ is not dict:
            return True
        if new_name in obj:
            return False
        if name in obj:
            obj[new_name] = obj.pop(name)
        return True

    return rename


def _move(source: Path, target: Path) -> ExactStep:
    *above, name = source
    *over, new_name = target
    common = _common(source, target)

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


def _map(path: Path, pairs: Sequence[tuple[Json, Json]], mirrored: Sequence[tuple[Json, Json]]) -> ExactStep:
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
        return _within(path[:-1], one)
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
    return _within(tuple(above), at)


def _default(path: Path, value: Json, *, pruned: bool) -> ExactStep:
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


def _present(path: Path) -> ExactStep:
    *above, name = path

    def present(obj: Json) -> bool:
        for step in above:
            if obj.__class__ is not dict:
                return False
            obj = obj.get(step)
        return obj.__class__ is dict and obj.get(name) is not None

    return present


def _taken_out(path: Path, value: Json) -> ExactStep:
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


def _absent(name: str) -> ExactStep:
    return lambda obj: obj.__class__ is not dict or name not in obj
