"""Fields set by expressions, on lossless paths (lossless.py).

Three kinds, by which of the two schemas know the field. Only the target: the value of the expression is set, and the
source schema prunes it on the way back. Only the source: the field is pruned, and must equal the value of the reverse
path's expression. Both: the value after converting back, from an expression or unchanged, must equal the original.

The last two are checked on each object. Where such a field differs, and is not within a list, its entry of the
complement is known at once, since nothing else differs.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from registry.conversion.declarative.codegen import Lines
from registry.conversion.declarative.expression import NOTHING, ConversionExpression
from registry.conversion.declarative.paths import Path, split
from registry.conversion.declarative.steps import put, values_at
from registry.schema.checks import Check
from registry.schema.values import same

Json = Any
Entries = list[dict[str, Json]]

_PLAIN: Final = frozenset((str, int, bool))
# Values that a schema may prune or remove.
_UNSURE: Final = frozenset((dict, list, type(None)))


# The object that holds the field (None where it is missing) and the field's value before the conversion.
Before = tuple[dict[str, Json] | None, Json]


class LosslessField:
    """A field of the whole object. `place` is the number of path segments up to the object that must exist.

    `forward` and `back` are the expressions of the two directions, None where there is none. `nothing_to_prune` checks
    lists and objects that `forward` returns: whether the target prunes nothing of them.

    Generates code (codegen.py) in three places: `evaluate` before anything is changed; `assign` sets the value of the
    expression, or removes what the target prunes; `check` compares what converting back gives with the original.
    """

    def __init__(
        self,
        path: Path,
        place: int,
        forward: ConversionExpression | None,
        back: ConversionExpression | None,
        *,
        in_source: bool,
        in_target: bool,
        nothing_to_prune: Check,
    ) -> None:
        self.path = path
        within, inner = split(path)
        self._above, self._inner = inner[: place - len(within)], inner[place - len(within) :]
        self._forward = forward
        self._back = back
        self._nothing_to_prune = nothing_to_prune
        self._in_source = in_source
        self._in_target = in_target
        self._value = self._holder = self._was = ""  # variables of the generated lines

    def evaluate(self, lines: Lines) -> None:
        if self._forward is not None:
            self._value = lines.variable()
            lines.add(0, f"{self._value} = {lines.value(self._forward.value)}(obj)")

    def assign(self, lines: Lines) -> None:
        self._was = lines.variable()
        last, nothing, was, value = lines.value(self._inner[0]), lines.value(NOTHING), self._was, self._value
        holder = self._holder = lines.at(0, "obj", self._above)
        lines.add(
            0,
            f"if {holder}.__class__ is dict:",
            f"    {was} = {holder}.{'get' if self._in_target else 'pop'}({last}, {nothing})",
        )
        if value:
            unsure = lines.value(_UNSURE)
            lines.add(
                1,
                f"if {value} is {nothing}:",
                f"    if {was}.__class__ in {unsure}:",
                "        return False",  # the value stays, which is proven only for values that no schema prunes
                "else:",
                f"    if {value}.__class__ in {unsure}:",
                f"        if not {lines.value(self._nothing_to_prune)}({value}):",
                "            return False",
                f"        {value} = {lines.value(copy.deepcopy)}({value})",
                f"    {holder}[{last}] = {value}"
                if len(self._inner) == 1
                else f"    {lines.value(put)}({holder}, {lines.value(self._inner)}, {value})",
            )
            lines.add(0, f"elif {value} is not {nothing}:", "    return False")
        lines.add(0, "else:", f"    {holder} = None", f"    {was} = {nothing}")

    def check(self, lines: Lines) -> None:
        if not self._in_source:
            return
        was, collected = self._was, lines.variable()
        elsewhere = f"{lines.value(self.comes_back)}({collected}, {self._holder}, {was}, lost)"
        if self._back is None:
            lines.add(0, f"{collected} = {lines.value(NOTHING)}", f"if not {elsewhere}:", "    return False")
        else:
            lines.add(
                0,
                f"{collected} = {lines.value(self._back.value)}(obj)",
                f"if not ({collected}.__class__ is {was}.__class__ and {collected}.__class__ in {lines.value(_PLAIN)} "
                f"and {collected} == {was}) and not {elsewhere}:",
                "    return False",
            )

    def comes_back(self, value: Json, holder: dict[str, Json] | None, was: Json, lost: Entries | None) -> bool:
        """Whether `value`, from converting back, is the original. Adds the complement's entry to `lost`, if given."""
        if value is NOTHING:
            if self._in_target and holder is not None:
                value = holder.get(self._inner[0], NOTHING)
        elif holder is None:
            return False
        if value is was:
            return True
        kind = value.__class__
        if kind is was.__class__ and (value == was if kind in _PLAIN else same(value, was)):
            return True
        if lost is None or not (value is NOTHING or kind in _PLAIN):
            return False
        lost.append(
            {"path": list(self.path)}
            | ({} if value is NOTHING else {"was": value})
            | ({} if was is NOTHING else {"is": was})
        )
        return True


class LosslessElements(LosslessField):
    """A field of each element that the path selects. The expressions read the element."""

    def evaluate(self, lines: Lines) -> None:
        self._value = lines.variable()
        lines.add(0, f"{self._value} = {lines.value(self._evaluate)}(obj)")

    def assign(self, lines: Lines) -> None:
        one = Lines("obj", "value")
        evaluated, self._value = self._value, "value" if self._forward is not None else ""
        super().assign(one)
        one.add(0, f"return {self._holder}, {self._was}")
        assign_one = one.function()

        def assign_each(evaluated: tuple[list[Json], list[Json]]) -> tuple[list[Json], list[Before]] | bool:
            before = [assign_one(element, value) for element, value in zip(*evaluated, strict=True)]
            return False not in before and (evaluated[0], before)

        self._was = lines.variable()
        lines.add(
            0, f"{self._was} = {lines.value(assign_each)}({evaluated})", f"if {self._was} is False:", "    return False"
        )

    def check(self, lines: Lines) -> None:
        if self._in_source:
            lines.add(0, f"if not {lines.value(self._come_back)}({self._was}):", "    return False")

    def _evaluate(self, obj: Json) -> tuple[list[Json], list[Json]]:
        elements = [e for e in values_at(obj, split(self.path)[0]) if e.__class__ is dict]
        return elements, _all_of(self._forward, elements)

    def _come_back(self, collected: tuple[list[Json], list[Before]]) -> bool:
        values = _all_of(self._back, collected[0])
        return all(
            self.comes_back(value, holder, was, None) for value, (holder, was) in zip(values, collected[1], strict=True)
        )


def _all_of(expression: ConversionExpression | None, elements: Sequence[Json]) -> list[Json]:
    if expression is None:
        return [NOTHING] * len(elements)
    values, spent = [], 0
    for element in elements:
        value, spent = expression.evaluate_charged(element, spent)
        values.append(value)
    return values
