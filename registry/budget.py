"""A budget of work for what a client can make superlinear: many items times many schema branches, operations or owners.

What is linear in the size of the request is bounded by the size of bodies, and not counted. All else spends units where
it loops, before it does the work, and ends with BudgetExceeded once they are spent:

    Budget().begin()            # once for a request: it is the current one of this task and of those that it starts
    spend(len(branches))        # in a loop, anywhere below

Without a current budget (controllers, commands, tests of algorithms) spending is free of charge. An exceeded budget
stays exceeded, so that code which goes on after an error cannot take the same time again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# A unit is about 0.1 µs of work on a present-day processor: a third of a second in all. 20,000 items, each against five
# branches of a schema, take a sixth of it.
UNITS: Final = 3_000_000


class BudgetExceeded(Exception):
    """The work for this request would take longer than it may. Nothing has been changed."""

    def __init__(self) -> None:
        super().__init__("the request takes more work than a request may: send less at once, or simplify the schema")


class Budget:
    __slots__ = ("left",)

    def __init__(self, units: int = UNITS) -> None:
        self.left = units

    def begin(self) -> None:
        """Makes this the current budget of the task, until another begins."""
        _current.set(self)

    def spend(self, units: int) -> None:
        """Raises BudgetExceeded, now and from then on, where fewer units are left."""
        self.left -= units
        if self.left < 0:
            raise BudgetExceeded


def spend(units: int) -> None:
    """Spends units of the current budget, if there is one; 0.1 µs. Raises BudgetExceeded."""
    budget = _current.get()
    if budget is not None:
        budget.left -= units
        if budget.left < 0:
            raise BudgetExceeded


@contextmanager
def own_budget() -> Iterator[None]:
    """A budget for the block alone: each of the many objects of a list has one."""
    token = _current.set(Budget())
    try:
        yield
    finally:
        _current.reset(token)


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)
