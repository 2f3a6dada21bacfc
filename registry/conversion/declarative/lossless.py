"""Lossless paths: conversions that the schemas prove to be undone by the reverse path, with the exceptions detected.

Every conversion is checked by converting back (plan.py), which doubles its cost. Here the check is left out:
`lossless_path` compiles the rules of a path to a function that returns whether converting back would restore the object
it was given and whether the target schema prunes nothing. True is a guarantee; False only means that the object must be
converted back to know. What is hard to prove is False, or no function at all (None).

What is proven: moves and maps that are mirrored in the reverse path; defaults that fill in what the other schema does
not know, or that restore what is omitted here. Each step is undone by its counterpart, so all of them are, in reverse
order. Fields of expressions, dropped fields and fields that the target does not know are independent of all this: no
other rule names them or what contains them, and none creates or removes the objects around them. So each of them is
restored, or lost, on its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from registry.conversion.declarative.codegen import MAX_LOOPS, Lines, Write
from registry.conversion.declarative.expression import ConversionExpression, element_at
from registry.conversion.declarative.lossless_fields import Entries, LosslessElements, LosslessField
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
from registry.conversion.declarative.shapes import ShapeError, ShapeVerdict, apply_rule, find_node, put_node, take_node
from registry.schema.checks import never
from registry.schema.compiled import CompiledSchema
from registry.schema.fast_prune import compile_fast_prune
from registry.schema.model import KEEPS_ALL

Json = Any
Schema = dict[str, Any]
# Takes a rule and the version of the objects that its expression reads.
Compile = Callable[[Set, str], ConversionExpression]

_NOTHING: Final = object()


# Changes an object in place. `api_version`, unless empty, is set on it, for expressions that read it. The list receives
# the entries of the complement (complement.py); without a list, an object that has entries is not lossless.
LosslessPath = Callable[[Json, str, Entries | None], bool]


def _generate(steps: Sequence[Write], fields: Sequence[LosslessField], lost: Sequence[Path]) -> LosslessPath:
    lines = Lines("obj", "api_version", "lost")
    for field in fields:
        field.evaluate(lines)  # every expression reads the object before any change
    for step in steps:
        step(lines, "obj", 0)
    for field in fields:
        field.assign(lines)
    for path in lost:
        lines.add(0, f"if not {lines.value(_without)}(obj, {lines.value(path)}, lost):", "    return False")
    lines.add(0, "if api_version:", f"    obj[{lines.value('apiVersion')}] = api_version")
    for field in fields:
        field.check(lines)
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
    forward: ConversionPath, back: ConversionPath, source: CompiledSchema, target: CompiledSchema, compile_rule: Compile
) -> LosslessPath | None:
    """None where nothing can be proven."""
    if not _are_mirrored(forward, back) or source.json.get(KEEPS_ALL) or target.json.get(KEEPS_ALL):
        return None
    try:
        return _Proof(forward, back, source, target).compile(compile_rule)
    except ShapeError:
        return None


class _Proof:
    """Raises ShapeError as soon as the proof fails."""

    def __init__(
        self, forward: ConversionPath, back: ConversionPath, source: CompiledSchema, target: CompiledSchema
    ) -> None:
        self.forward = forward
        self.back = back
        self.rules: tuple[ConversionRule, ...] = (*forward.rules, *back.rules)
        self.schemas = source, target
        self.source = dict(source.json)
        self.target = dict(target.json)
        self.forward = self.without_needless(forward, self.target)
        self.back = self.without_needless(back, self.source)
        self.rules = (*self.forward.rules, *self.back.rules)
        self.shape = copy.deepcopy(self.source)  # the source schema as changed by the rules so far
        self.lost: list[Path] = []
        self.after: list[Write] = []

    def compile(self, compile_rule: Compile) -> LosslessPath:
        steps = [*self.omitted_writes()]
        for rule in self.forward.rules:
            if isinstance(rule, Drop):
                self.drop(rule)
            elif not isinstance(rule, Set):
                apply_rule(rule, self.shape, self.target, self.schemas[0].structural, ShapeVerdict())
                steps.append(self.step(rule))
        for rule in self.back.rules:
            if isinstance(rule, Drop):
                self.drop_on_return(rule)
        fields = self.fields(compile_rule)
        unknown: list[Path] = []
        if not fits(self.shape, self.target, (), unknown):
            raise ShapeError
        for path in unknown:
            if STAR not in path and pruned_at(self.target, path) == len(path) - 1 and self.stands_alone(path):
                self.lost.append(path)
            else:
                self.after.append(call_step(each_within(path[:-1], absent(path[-1]))))
        return _generate([*steps, *self.after], fields, self.lost)

    # -- rules
    def without_needless(self, forward: ConversionPath, target: Schema) -> ConversionPath:
        """The path without drops of pruned fields that only expressions of the reverse path name."""

        def is_needless(rule: ConversionRule) -> bool:
            if not isinstance(rule, Drop) or pruned_at(target, rule.path) != len(rule.path) - 1:
                return False
            others = [
                other
                for other in self.rules
                if other is not rule
                and not (isinstance(other, Set) and other.path == rule.path and other not in forward.rules)
            ]
            return self.is_stable(rule.path[:-1]) and not any(_meet(rule.path, p) for o in others for p in _place(o))

        return replace(forward, rules=tuple(rule for rule in forward.rules if not is_needless(rule)))

    def omitted_writes(self) -> list[Write]:
        """Steps for what the reverse path fills in: present, or equal to the value filled in and therefore omitted."""
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
                pruned = pruned_at(self.source, path) == len(path) - 1 and not self.may_be_created(path[:-1])
                return call_step(each_within(within, fill_in(inner, value, pruned=pruned)))
        raise ShapeError

    def drop(self, rule: Drop) -> None:
        """A present value is lost and must be noted; the order does not matter, since nothing else depends on it."""
        if self.meets_another(rule) or not self.is_stable(rule.path[:-1]):
            raise ShapeError
        take_node(self.shape, rule.path)
        if STAR in rule.path:
            self.after.append(call_step(each_within(rule.path[:-1], absent(rule.path[-1]))))
        else:
            self.lost.append(rule.path)

    def drop_on_return(self, rule: Drop) -> None:
        if self.meets_another(rule) or not self.is_stable(rule.path[:-1]):
            raise ShapeError
        self.after.append(call_step(each_within(rule.path[:-1], absent(rule.path[-1]))))

    def fields(self, compile_rule: Compile) -> list[LosslessField]:
        rules_by_path: dict[Path, list[Set | None]] = {}
        for i, forward in enumerate((self.forward, self.back)):
            for rule in forward.rules:
                if isinstance(rule, Set):
                    if self.meets_another(rule):
                        raise ShapeError
                    rules_by_path.setdefault(rule.path, [None, None])[i] = rule
        return [self.field(path, ahead, back, compile_rule) for path, (ahead, back) in rules_by_path.items()]

    def field(self, path: Path, ahead: Set | None, back: Set | None, compile_rule: Compile) -> LosslessField:
        known = find_node(self.source, path), find_node(self.target, path)
        place = len(path) - 1
        if known[0] is None:  # its holder must be pruned as it is, so the value of the expression must be too
            kept_segments = pruned_at(self.source, path)
            if kept_segments is None or kept_segments < len(split(path)[0]) or back is not None or known[1] is None:
                raise ShapeError
            place = kept_segments
        if known[1] is None and (pruned_at(self.target, path) is None or ahead is not None):
            raise ShapeError
        if not self.is_stable(path[:place]):
            raise ShapeError
        if ahead is not None:
            if known[0] is not None:
                take_node(self.shape, path)
            put_node(self.shape, path, copy.deepcopy(known[1] or {}))
        elif known[1] is None:
            take_node(self.shape, path)
        structural = element_at(self.schemas[1].structural, path)
        kind = LosslessElements if STAR in path else LosslessField
        return kind(
            path,
            place,
            compile_rule(ahead, self.forward.source) if ahead is not None else None,
            compile_rule(back, self.forward.target) if back is not None else None,
            in_source=known[0] is not None,
            in_target=known[1] is not None,
            nothing_to_prune=compile_fast_prune(structural) if structural is not None else never,
        )

    # -- independence from the other rules
    def stands_alone(self, path: Path) -> bool:
        return not any(_meet(path, other) for rule in self.rules for other in _place(rule)) and self.is_stable(
            path[:-1]
        )

    def meets_another(self, rule: ConversionRule) -> bool:
        """Whether another rule names the path or a part of it. A field may have expressions in both directions."""
        here = rule in self.forward.rules
        for others, same in ((self.forward.rules, here), (self.back.rules, not here)):
            for other in others:
                twins = isinstance(rule, Set) and isinstance(other, Set) and rule.path == other.path and not same
                if not (other is rule or twins) and any(_meet(a, b) for a in _place(rule) for b in _place(other)):
                    return True
        return False

    def is_stable(self, holder: Path) -> bool:
        """Whether no move creates or removes the object, or one that contains it."""
        return not any(len(q) <= len(holder) and _meet(q, holder) for rule in self.rules for q in _affected_paths(rule))

    def may_be_created(self, holder: Path) -> bool:
        """Whether a move may create the object: converting back removes it again if it is empty."""
        for rule in self.forward.rules:
            if isinstance(rule, Move):
                target = rule.target
                if common_steps(rule.source, target) < len(holder) < len(target) and holder == target[: len(holder)]:
                    return True
        return False


def _are_mirrored(forward: ConversionPath, back: ConversionPath) -> bool:
    """Whether the moves and maps of one path are those of the other reversed, regardless of the mapped values.

    Their order may differ where that makes no difference.
    """
    left = [rule for rule in back.rules if isinstance(rule, Move | MapValues)]
    for rule in reverse_rules(forward.rules):
        index = next((i for i, other in enumerate(left) if _place(other) == _place(rule)), None)
        if index is None or not all(_commute(other, left[index]) for other in left[:index]):
            return False
        del left[index]
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
    """The objects that a move creates at its target, and removes at its source where it leaves them empty."""
    if not isinstance(rule, Move):
        return []
    common = common_steps(rule.source, rule.target)
    return [end[:n] for end in (rule.source, rule.target) for n in range(common + 1, len(end))]


def _place(rule: ConversionRule) -> tuple[Path, ...]:
    return (rule.source, rule.target) if isinstance(rule, Move) else (rule.path,)


def _meet(path: Path, other: Path) -> bool:
    """Whether one path equals the other or is a prefix of it."""
    return all(a in (b, STAR) or b == STAR for a, b in zip(path, other, strict=False))
