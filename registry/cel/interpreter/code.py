"""The compiler's building blocks: pieces of code with their costs, and the frame they run on.

A piece of code is a closure over the frame, a plain list: [cost, variable, variable, …]. It returns a CEL value, unless
the piece has a view: then it returns the decoded JSON itself, not null and of the view's Python type, so that
`self.spec.name` is three dictionary look-ups. `value_of` converts the latter to the former.

There are two ways of counting costs. Calls whose cost depends on sizes always charge it at run time, in frame[0];
`cost` is the rest. In the fast way, which is the usual one, `cost` is an upper bound: the more expensive branch of `?:`
and all terms of `&&`; a loop charges all its rounds when it starts. The sum of both bounds the cost of an evaluation.
In the exact way each branch, term and round is charged when it is reached. The fast way is used until its bound exceeds
the limit; then everything is evaluated again in the exact way, which stops where kube-apiserver stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from registry.budget import spend
from registry.cel.common.values import CostExceeded, EvalError, Value
from registry.cel.ext.table import PER_CALL_LIMIT
from registry.cel.interpreter.view import View

Frame = list[Any]
Run = Callable[[Frame], Value]

COST: Final = 0  # the slot of the cost in a frame


@dataclass(slots=True, eq=False)
class Code:
    """One compiled node. `cost` is its cost beyond what it charges at run time.

    `constant` means that `run` may be called once, with any frame. `attribute` means that the node is a name with
    fields, whose next field costs 1 rather than 2.
    """

    run: Run
    cost: int = 0
    view: View | None = None
    _: KW_ONLY
    constant: bool = False
    attribute: bool = False
    slot: int = 0  # the slot that `run` returns unchanged, 0 if it does more than that
    # The slot and key of the object that `run` returns: a field of that object is read without `run`.
    property_of: tuple[int, str] | None = None


def value_of(code: Code) -> Run:
    """A closure that returns the result of `code` as a CEL value."""
    view, run = code.view, code.run
    if view is None or view.plain is not None:
        return run
    convert = view.convert
    if code.slot:
        slot = code.slot
        return lambda frame: convert(frame[slot])
    return lambda frame: convert(run(frame))


def constant(value: Value, cost: int = 0) -> Code:
    return Code(lambda frame: value, cost, constant=True)


def failing(error: EvalError, cost: int = 0) -> Code:
    """A piece that always fails; the error is raised when the piece is reached, because `||` may absorb it."""
    text = str(error)

    def run(frame: Frame) -> Value:
        raise EvalError(text)

    return Code(run, cost)


def charge(frame: Frame, cost: int) -> None:
    total = frame[COST] + cost
    frame[COST] = total
    if total > PER_CALL_LIMIT:
        raise CostExceeded


def costing(code: Code, cost: int) -> Code:
    """Adds `cost` to the cost of `code`, in place."""
    code.cost += cost
    return code


# Rounds of a loop between two checks of the time.
_ITEMS_PER_CHECK: Final = 1000


def _iter_metered(items: list[Value]) -> Iterator[Value]:
    for start in range(0, len(items), _ITEMS_PER_CHECK):
        part = items[start : start + _ITEMS_PER_CHECK]
        spend(len(part))
        yield from part


class Fast:
    """Costs are bounded at compile time."""

    exact = False

    @staticmethod
    def branch(code: Code) -> Code:
        """Marks a piece that is not always reached."""
        return code

    @staticmethod
    def rounds(per_round: int) -> Callable[[Frame, list[Value]], Iterable[Value]]:
        """Returns the start of a loop: charges all rounds and returns the items to iterate over."""

        def begin(frame: Frame, items: list[Value]) -> Iterable[Value]:
            rounds = len(items)
            total = frame[COST] + rounds * per_round
            frame[COST] = total
            if total > PER_CALL_LIMIT:
                raise CostExceeded
            if rounds > _ITEMS_PER_CHECK:
                return _iter_metered(items)
            spend(rounds)
            return items

        return begin


class Exact:
    """Costs are charged where they arise."""

    exact = True

    @staticmethod
    def branch(code: Code) -> Code:
        run, cost = code.run, code.cost
        if not cost:
            return code

        def run_charged(frame: Frame) -> Value:
            charge(frame, cost)
            return run(frame)

        return Code(run_charged, 0, code.view, attribute=code.attribute)

    @staticmethod
    def rounds(per_round: int) -> Callable[[Frame, list[Value]], Iterable[Value]]:
        def begin(frame: Frame, items: list[Value]) -> Iterator[Value]:
            for item in _iter_metered(items):
                charge(frame, per_round)
                yield item

        return begin


Counting = type[Fast] | type[Exact]
