"""Ways that are undone by their way back: proven by the schemas for all objects but some, which tell themselves apart.

The way back is the judge of every conversion (plan.py), and costs as much as the way there. Here it is left out:
`exact_way` gives the rules of a way as a function that says of each object whether the other way would give it back as
it was, and whether the schema at its end would prune anything. True is a promise; a False only means that the way back
must be walked, so whatever is hard to prove is False, or no way at all (None).

What is proven: moves and maps that stand mirrored in the way back; defaults that fill in what the other schema does not
know, or that give back what is left out here. Each step is undone by its twin, so all of them are, last first. Fields
of expressions, fields that are dropped, and those that the target does not know stand beside all this: no other rule
names them or what they are in, and none makes or removes the objects around them. So each comes back, or is lost, by
itself.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from registry.conversion.declarative.expression import ConversionExpression, element_at
from registry.conversion.declarative.lossless_fields import Entries, ExactElements, ExactField
from registry.conversion.declarative.lossless_steps import (
    absent,
    call_step,
    common_steps,
    each_within,
    fill_in,
    map_values,
    move,
    present,
    remove_value,
    rename,
    write_within,
)
from registry.conversion.declarative.model import (
    ConversionPath,
    ConversionRule,
    Default,
    Drop,
    MapValues,
    Move,
    Set,
    reverse_rules,
)
from registry.conversion.declarative.paths import STAR, Path, split
from registry.conversion.declarative.pruned import fits, pruned_at
from registry.conversion.declarative.shapes import ShapeError, Verdict, apply_rule, find_node, put_node, take_node
from registry.conversion.declarative.written import MAX_LOOPS, Lines, Write
from registry.schema.checks import never
from registry.schema.compiled import CompiledSchema
from registry.schema.fast_prune import compile_fast_prune
from registry.schema.model import KEEPS_ALL

Json = Any
Schema = dict[str, Any]
# Of a rule and the version whose objects it looks at.
Compile = Callable[[Set, str], ConversionExpression]

_NOTHING: Final = object()


# Changes an object; `api_version` is given it where it is not empty, for expressions that look at it. The list gets the
# entries of the remainder (remainder.py); without one an object that has any is not exact.
LosslessPath = Callable[[Json, str, Entries | None], bool]


def _written(steps: Sequence[Write], fields: Sequence[ExactField], lost: Sequence[Path]) -> LosslessPath:
    lines = Lines("obj", "api_version", "lost")
    for field in fields:
        field.look(lines)  # all of them see the object as it was
    for step in steps:
        step(lines, "obj", 0)
    for field in fields:
        field.put(lines)
    for path in lost:
        lines.add(0, f"if not {lines.value(_without)}(obj, {lines.value(path)}, lost):", "    return False")
    lines.add(0, "if api_version:", f"    obj[{lines.value('apiVersion')}] = api_version")
    for field in fields:
        field.judge(lines)
    lines.add(0, "return True")
    return lines.function()


def _without(obj: Json, path: Path, lost: Entries | None) -> bool:
    for name in path[:-1]:
        obj = obj.get(name)
        if obj.__class__ is not dict:
            return True
    value = obj.pop(path[-1], _NOTHING)
    if value is _NOTHING:
        return True
    if lost is not None:
        lost.append({"path": list(path), "is": value})
    return lost is not None


def lossless_path(
    way: ConversionPath, back: ConversionPath, source: CompiledSchema, target: CompiledSchema, compiled: Compile
) -> LosslessPath | None:
    """None where nothing can be proven."""
    if not _are_mirrored(way, back) or source.json.get(KEEPS_ALL) or target.json.get(KEEPS_ALL):
        return None
    try:
        return _Proof(way, back, source, target).compile(compiled)
    except ShapeError:
        return None


class _Proof:
    """Raises ShapeError where it ends."""

    def __init__(
        self, way: ConversionPath, back: ConversionPath, source: CompiledSchema, target: CompiledSchema
    ) -> None:
        self.way = way
        self.back = back
        self.rules: tuple[ConversionRule, ...] = (*way.rules, *back.rules)
        self.schemas = source, target
        self.source = dict(source.json)
        self.target = dict(target.json)
        self.way = self.without_needless(way, self.target)
        self.back = self.without_needless(back, self.source)
        self.rules = (*self.way.rules, *self.back.rules)
        self.shape = copy.deepcopy(self.source)  # what the rules have made of the source so far
        self.lost: list[Path] = []
        self.after: list[Write] = []

    def compile(self, compiled: Compile) -> LosslessPath:
        steps = [*self.omitted_writes()]
        for rule in self.way.rules:
            if isinstance(rule, Drop):
                self.drop(rule)
            elif not isinstance(rule, Set):
                apply_rule(rule, self.shape, self.target, self.schemas[0].structural, Verdict())
                steps.append(self.step(rule))
        for rule in self.back.rules:
            if isinstance(rule, Drop):
                self.drop_again(rule)
        fields = self.fields(compiled)
        unknown: list[Path] = []
        if not fits(self.shape, self.target, (), unknown):
            raise ShapeError
        for path in unknown:
            if STAR not in path and pruned_at(self.target, path) == len(path) - 1 and self.stands_alone(path):
                self.lost.append(path)
            else:
                self.after.append(call_step(each_within(path[:-1], absent(path[-1]))))
        return _written([*steps, *self.after], fields, self.lost)

    # -- rules
    def without_needless(self, way: ConversionPath, target: Schema) -> ConversionPath:
        """Without drops of what is pruned anyway, and only an expression of the other way names."""

        def is_needless(rule: ConversionRule) -> bool:
            if not isinstance(rule, Drop) or pruned_at(target, rule.path) != len(rule.path) - 1:
                return False
            others = [
                other
                for other in self.rules
                if other is not rule
                and not (isinstance(other, Set) and other.path == rule.path and other not in way.rules)
            ]
            return self.is_stable(rule.path[:-1]) and not any(_meet(rule.path, p) for o in others for p in _place(o))

        return replace(way, rules=tuple(rule for rule in way.rules if not is_needless(rule)))

    def omitted_writes(self) -> list[Write]:
        """Of what the way back fills in: it is there, or it is what would be filled in, and left out."""
        steps = []
        for rule in self.back.rules:
            if isinstance(rule, Default):
                known = find_node(self.target, rule.path) is not None
                if self.meets_another(rule) or not (known or self.is_stable(rule.path[:-1])):
                    raise ShapeError
                if not known:
                    take_node(self.shape, rule.path)
                within, inner = split(rule.path)
                steps.append(
                    call_step(each_within(within, present(inner) if known else remove_value(inner, rule.value)))
                )
        return steps

    def step(self, rule: ConversionRule) -> Write:
        if any(path.count(STAR) > MAX_LOOPS for path in _place(rule)):
            raise ShapeError
        match rule:
            case Move(_, old, new):
                within, inner = split(old)
                to = split(new)[1]
                if common_steps(inner, to) == min(len(inner), len(to)):
                    raise ShapeError  # into itself
                if inner[:-1] == to[:-1]:
                    return write_within((*within, *inner[:-1]), rename(inner[-1], to[-1]))
                return write_within(within, move(inner, to))
            case MapValues(_, path, pairs):
                mirrored = [r.pairs for r in self.back.rules if isinstance(r, MapValues) and r.path == path]
                if len(mirrored) == 1:
                    return map_values(path, pairs, mirrored[0])
            case Default(_, path, value) if not self.meets_another(rule):
                within, inner = split(path)
                pruned = pruned_at(self.source, path) == len(path) - 1 and not self.is_made(path[:-1])
                return call_step(each_within(within, fill_in(inner, value, pruned=pruned)))
        raise ShapeError

    def drop(self, rule: Drop) -> None:
        """What is there is lost, and must be told; the order does not matter, for nothing else depends on it."""
        if self.meets_another(rule) or not self.is_stable(rule.path[:-1]):
            raise ShapeError
        take_node(self.shape, rule.path)
        if STAR in rule.path:
            self.after.append(call_step(each_within(rule.path[:-1], absent(rule.path[-1]))))
        else:
            self.lost.append(rule.path)

    def drop_again(self, rule: Drop) -> None:
        if self.meets_another(rule) or not self.is_stable(rule.path[:-1]):
            raise ShapeError
        self.after.append(call_step(each_within(rule.path[:-1], absent(rule.path[-1]))))

    def fields(self, compiled: Compile) -> list[ExactField]:
        ways: dict[Path, list[Set | None]] = {}
        for i, way in enumerate((self.way, self.back)):
            for rule in way.rules:
                if isinstance(rule, Set):
                    if self.meets_another(rule):
                        raise ShapeError
                    ways.setdefault(rule.path, [None, None])[i] = rule
        return [self.field(path, there, back, compiled) for path, (there, back) in ways.items()]

    def field(self, path: Path, there: Set | None, back: Set | None, compiled: Compile) -> ExactField:
        known = find_node(self.source, path), find_node(self.target, path)
        place = len(path) - 1
        if known[0] is None:  # what holds it must be pruned as it is, so what the expression's value makes too
            found = pruned_at(self.source, path)
            if found is None or found < len(split(path)[0]) or back is not None or known[1] is None:
                raise ShapeError
            place = found
        if known[1] is None and (pruned_at(self.target, path) is None or there is not None):
            raise ShapeError
        if not self.is_stable(path[:place]):
            raise ShapeError
        if there is not None:
            if known[0] is not None:
                take_node(self.shape, path)
            put_node(self.shape, path, copy.deepcopy(known[1] or {}))
        elif known[1] is None:
            take_node(self.shape, path)
        structural = element_at(self.schemas[1].structural, path)
        kind = ExactElements if STAR in path else ExactField
        return kind(
            path,
            place,
            compiled(there, self.way.source) if there is not None else None,
            compiled(back, self.way.target) if back is not None else None,
            in_source=known[0] is not None,
            in_target=known[1] is not None,
            tidy=compile_fast_prune(structural) if structural is not None else never,
        )

    # -- what stands beside the other rules
    def stands_alone(self, path: Path) -> bool:
        return not any(_meet(path, other) for rule in self.rules for other in _place(rule)) and self.is_stable(
            path[:-1]
        )

    def meets_another(self, rule: ConversionRule) -> bool:
        """Whether another rule names something on the path, or in it. Expressions may fill in a field both ways."""
        here = rule in self.way.rules
        for others, same in ((self.way.rules, here), (self.back.rules, not here)):
            for other in others:
                twins = isinstance(rule, Set) and isinstance(other, Set) and rule.path == other.path and not same
                if not (other is rule or twins) and any(_meet(a, b) for a in _place(rule) for b in _place(other)):
                    return True
        return False

    def is_stable(self, holder: Path) -> bool:
        """Whether no move makes or removes the object, or one that it is in."""
        return not any(len(q) <= len(holder) and _meet(q, holder) for rule in self.rules for q in _affected_paths(rule))

    def is_made(self, holder: Path) -> bool:
        """Whether a move may make the object: on the way back it goes with what was moved, unless something is left."""
        for rule in self.way.rules:
            if isinstance(rule, Move):
                target = rule.target
                if common_steps(rule.source, target) < len(holder) < len(target) and holder == target[: len(holder)]:
                    return True
        return False


def _are_mirrored(way: ConversionPath, back: ConversionPath) -> bool:
    """Whether the moves and maps of one are those of the other turned round, whatever their values become.

    They may stand in another order where that makes no difference.
    """
    left = [rule for rule in back.rules if isinstance(rule, Move | MapValues)]
    for rule in reverse_rules(way.rules):
        found = next((i for i, other in enumerate(left) if _place(other) == _place(rule)), None)
        if found is None or not all(_commute(other, left[found]) for other in left[:found]):
            return False
        del left[found]
    return not left


def _commute(one: ConversionRule, other: ConversionRule) -> bool:
    if any(_meet(a, b) for a in _place(one) for b in _place(other)):
        return False
    return not any(
        len(q) <= len(path) and _meet(q, path)
        for a, b in ((one, other), (other, one))
        for q in _affected_paths(a)
        for path in _place(b)
    )


def _affected_paths(rule: ConversionRule) -> list[Path]:
    """The objects that a move makes on its way, and removes where it leaves them empty."""
    if not isinstance(rule, Move):
        return []
    common = common_steps(rule.source, rule.target)
    return [end[:n] for end in (rule.source, rule.target) for n in range(common + 1, len(end))]


def _place(rule: ConversionRule) -> tuple[Path, ...]:
    return (rule.source, rule.target) if isinstance(rule, Move) else (rule.path,)


def _meet(path: Path, other: Path) -> bool:
    """Whether one may be the other, or lead to it."""
    return all(a in (b, STAR) or b == STAR for a, b in zip(path, other, strict=False))
