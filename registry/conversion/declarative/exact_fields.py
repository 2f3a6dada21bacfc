"""Fields that expressions fill in, on ways that are undone by their way back (exact.py).

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

from registry.conversion.declarative.expression import NOTHING, Evaluate
from registry.conversion.declarative.paths import Path, split
from registry.conversion.declarative.steps import found_at, put
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
    """

    def __init__(self, path: Path, place: int, there: Evaluate | None, back: Evaluate | None, *, in_source: bool,
                 in_target: bool, tidy: Check) -> None:
        self.path = path
        within, inner = split(path)
        self._above, self._inner = inner[:place - len(within)], inner[place - len(within):]
        self._last = self._inner[0]
        self._there = there
        self._back = back
        self._tidy = tidy
        self.in_source = in_source
        self._in_target = in_target

    def look(self, obj: Json) -> Json:
        """The new value, found before anything is changed."""
        return NOTHING if self._there is None else self._there(obj, 0)[0]

    def put(self, obj: Json, value: Json) -> Any:
        """Puts in what `look` gave, or takes out what the target prunes. What there was; None: do not go on."""
        return self._put(obj, value)

    def comes_back(self, obj: Json, before: Any, lost: Entries | None) -> bool:
        """Whether the way back gives what there was. `lost` gets what the remainder has to say, if it is given."""
        value = NOTHING if self._back is None else self._back(obj, 0)[0]
        return self._same(value, before, lost)

    def _put(self, element: Json, value: Json) -> Before | None:
        holder = element
        for name in self._above:
            holder = holder.get(name)
            if holder.__class__ is not dict:
                holder = None
                break
        if holder is None:
            return (None, NOTHING) if value is NOTHING else None
        if not self._in_target:
            return holder, holder.pop(self._last, NOTHING)
        was = holder.get(self._last, NOTHING)
        if value is NOTHING:
            # It stays, which is proven without expressions only, or for what no schema prunes.
            return None if self._there is not None and was.__class__ in _UNSURE else (holder, was)
        if value.__class__ in _UNSURE:
            if not self._tidy(value):
                return None
            value = copy.deepcopy(value)
        put(holder, self._inner, value)
        return holder, was

    def _same(self, value: Json, before: Before, lost: Entries | None) -> bool:
        holder, was = before
        if value is NOTHING:
            if self._in_target and holder is not None:
                value = holder.get(self._last, NOTHING)
        elif holder is None:
            return False
        if value is was:
            return True
        kind = value.__class__
        if kind is was.__class__ and (value == was if kind in _PLAIN else same(value, was)):
            return True
        if lost is None or not (value is NOTHING or kind in _PLAIN):
            return False
        lost.append({"path": list(self.path)} | ({} if value is NOTHING else {"was": value})
                    | ({} if was is NOTHING else {"is": was}))
        return True


class ExactElements(ExactField):
    """A field of each of the elements that the path leads to. The expressions look at the element."""

    def look(self, obj: Json) -> Json:
        elements = [e for e in found_at(obj, split(self.path)[0]) if e.__class__ is dict]
        return elements, _all_of(self._there, elements)

    def put(self, obj: Json, value: Json) -> Any:
        elements, values = value
        before = [self._put(element, value) for element, value in zip(elements, values, strict=True)]
        return None if any(was is None for was in before) else (elements, before)

    def comes_back(self, obj: Json, before: Any, lost: Entries | None) -> bool:
        elements, found = before
        values = _all_of(self._back, elements)
        return all(self._same(value, was, None) for value, was in zip(values, found, strict=True))


def _all_of(evaluate: Evaluate | None, elements: Sequence[Json]) -> list[Json]:
    if evaluate is None:
        return [NOTHING] * len(elements)
    values, spent = [], 0
    for element in elements:
        value, spent = evaluate(element, spent)
        values.append(value)
    return values
