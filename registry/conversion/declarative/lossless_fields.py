"""Fields that expressions fill in, on ways that are undone by their way back (lossless.py).

Three kinds, by which of the two schemas know the field. Only the target: what the expression gives is put in, and the
schema at the way's beginning prunes it again. Only the source: it is pruned, and must be what the expression of the way
back gives. Both: what is there on the way back, from its expression or as it is, must be what there was.

The last two have to be looked at in each object. Where the field differs, and is not within a list, what the remainder
has of it is known at once, for nothing else differs.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Final

from registry.conversion.declarative.expression import NOTHING, ConversionExpression
from registry.conversion.declarative.paths import Path, split
from registry.conversion.declarative.steps import found_at, put
from registry.conversion.declarative.written import Lines
from registry.schema.checks import Check
from registry.schema.values import same

Json = Any
Entries = list[dict[str, Json]]

_PLAIN: Final = frozenset((str, int, bool))
# What a schema may prune, or remove.
_UNSURE: Final = frozenset((dict, list, type(None)))


# What an object has the field in, None where that is missing, and what it had there.
Before = tuple[dict[str, Json] | None, Json]


class ExactField:
    """A field of the whole object. `place` counts the steps of the path up to the object that must be there.

    What follows is made. `there` and `back` are the expressions of the two ways, if they have one. `tidy` judges lists
    and objects of `there`: whether the target prunes nothing of them.

    It is written out (written.py) in three places: `look` before anything is changed; `put`, which puts in what the
    expression gave, or takes out what the target prunes; and `judge`, whether the way back gives what there was.
    """

    def __init__(
        self,
        path: Path,
        place: int,
        there: ConversionExpression | None,
        back: ConversionExpression | None,
        *,
        in_source: bool,
        in_target: bool,
        tidy: Check,
    ) -> None:
        self.path = path
        within, inner = split(path)
        self._above, self._inner = inner[: place - len(within)], inner[place - len(within) :]
        self._there = there
        self._back = back
        self._tidy = tidy
        self._in_source = in_source
        self._in_target = in_target
        self._value = self._holder = self._was = ""  # the variables of the lines

    def look(self, lines: Lines) -> None:
        if self._there is not None:
            self._value = lines.variable()
            lines.add(0, f"{self._value} = {lines.value(self._there.value)}(obj)")

    def put(self, lines: Lines) -> None:
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
                "        return False",  # it stays, which is proven for what no schema prunes
                "else:",
                f"    if {value}.__class__ in {unsure}:",
                f"        if not {lines.value(self._tidy)}({value}):",
                "            return False",
                f"        {value} = {lines.value(copy.deepcopy)}({value})",
                f"    {holder}[{last}] = {value}"
                if len(self._inner) == 1
                else f"    {lines.value(put)}({holder}, {lines.value(self._inner)}, {value})",
            )
            lines.add(0, f"elif {value} is not {nothing}:", "    return False")
        lines.add(0, "else:", f"    {holder} = None", f"    {was} = {nothing}")

    def judge(self, lines: Lines) -> None:
        if not self._in_source:
            return
        was, found = self._was, lines.variable()
        elsewhere = f"{lines.value(self.comes_back)}({found}, {self._holder}, {was}, lost)"
        if self._back is None:
            lines.add(0, f"{found} = {lines.value(NOTHING)}", f"if not {elsewhere}:", "    return False")
        else:
            lines.add(
                0,
                f"{found} = {lines.value(self._back.value)}(obj)",
                f"if not ({found}.__class__ is {was}.__class__ and {found}.__class__ in {lines.value(_PLAIN)} "
                f"and {found} == {was}) and not {elsewhere}:",
                "    return False",
            )

    def comes_back(self, value: Json, holder: dict[str, Json] | None, was: Json, lost: Entries | None) -> bool:
        """Whether `value`, of the way back, is what there was. `lost` gets what the remainder says, if it is given."""
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


class ExactElements(ExactField):
    """A field of each of the elements that the path leads to. The expressions look at the element."""

    def look(self, lines: Lines) -> None:
        self._value = lines.variable()
        lines.add(0, f"{self._value} = {lines.value(self._evaluate)}(obj)")

    def put(self, lines: Lines) -> None:
        one = Lines("obj", "value")
        looked, self._value = self._value, "value" if self._there is not None else ""
        super().put(one)
        one.add(0, f"return {self._holder}, {self._was}")
        put_one = one.function()

        def put_each(looked: tuple[list[Json], list[Json]]) -> tuple[list[Json], list[Before]] | bool:
            before = [put_one(element, value) for element, value in zip(*looked, strict=True)]
            return False not in before and (looked[0], before)

        self._was = lines.variable()
        lines.add(
            0, f"{self._was} = {lines.value(put_each)}({looked})", f"if {self._was} is False:", "    return False"
        )

    def judge(self, lines: Lines) -> None:
        if self._in_source:
            lines.add(0, f"if not {lines.value(self._come_back)}({self._was}):", "    return False")

    def _evaluate(self, obj: Json) -> tuple[list[Json], list[Json]]:
        elements = [e for e in found_at(obj, split(self.path)[0]) if e.__class__ is dict]
        return elements, _all_of(self._there, elements)

    def _come_back(self, found: tuple[list[Json], list[Before]]) -> bool:
        values = _all_of(self._back, found[0])
        return all(
            self.comes_back(value, holder, was, None) for value, (holder, was) in zip(values, found[1], strict=True)
        )


def _all_of(expression: ConversionExpression | None, elements: Sequence[Json]) -> list[Json]:
    if expression is None:
        return [NOTHING] * len(elements)
    values, spent = [], 0
    for element in elements:
        value, spent = expression.charged(element, spent)
        values.append(value)
    return values
