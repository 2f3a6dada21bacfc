"""The measure of work on behalf of a client: a budget, spent where work can grow faster than the request.

Work linear in the size of the request is bounded by the size of bodies, and not counted. All other work spends units in
its loops, before it is done, and ends with BudgetExceeded once they are spent:

    Budget().begin()               # a request: current in this task and in those that it starts
    spend(len(branches))           # in a loop, anywhere below; free if no budget is current

    with Budget(units, seconds):   # a part with its own limits: an object of a list, an evaluation of CEL
        spend(len(items))

Where units say little about time, as in CEL, processor time is limited, too: of each part, and of all parts of a
request together. The clock is read only after many units have been spent.

An exceeded budget stays exceeded, so that code that continues after an error cannot take the same time again. CEL costs
are counted separately, because they follow kube-apiserver (docs/decisions/request-budget.md).
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from time import thread_time
from typing import Final

# A unit is about 0.1 µs of work on a current processor: a third of a second in total. 20,000 items, each against five
# branches of a schema, take a sixth of it.
UNITS: Final = 3_000_000
NANOSECONDS_PER_UNIT: Final = 100
# The part of these for pattern matching that is not known to be cheap: a tenth of a second. It is separate, so that the
# error names the field and its pattern.
MATCHING_UNITS: Final = 1_000_000
# Processor time of all parts of a request together.
SECONDS: Final = 5.0
# Units of a part between two readings of the clock: 6 ms at most, since a unit of CEL takes up to 3 µs.
_STEP: Final = 2_000


class BudgetExceeded(Exception):
    """The work for this request would take longer than allowed. Nothing has been changed."""

    def __init__(self) -> None:
        super().__init__("the request takes more work than a request may: send less at once, or simplify the schema")


class MatchingExceeded(BudgetExceeded):
    """Matching texts against patterns has used up its part."""


class Budget:
    """`left` units and `seconds` of processor time. Its own time is measured only within `with`: otherwise it is that
    of its parts, which may be evaluated in any thread.

    `is_measured`: all of its time counts, not only that of parts which spend many units.
    """

    __slots__ = ("_began", "_is_measured", "_is_part", "_look", "_matching", "_outer", "_token", "left", "seconds")

    def __init__(self, units: int = UNITS, seconds: float = SECONDS, *, is_measured: bool = False) -> None:
        self.left = units
        self.seconds = seconds
        self._matching = MATCHING_UNITS
        self._is_measured = is_measured
        self._is_part = False
        self._look = 0  # with fewer units left, the clock is read
        self._began: float | None = None
        self._outer: Budget | None = None

    def begin(self) -> None:
        """Makes this the current budget of the task, until another begins."""
        _current.set(self)

    @staticmethod
    def current() -> Budget | None:
        return _current.get()

    def __enter__(self) -> Budget:
        outer = self._outer = _current.get()
        if outer is not None and outer.seconds < self.seconds:
            self.seconds = outer.seconds
        self._is_part = True
        self._look = max(0, self.left - _STEP)
        if self._is_measured:
            self._began = thread_time()
        self._token: Token[Budget | None] = _current.set(self)
        return self

    def __exit__(self, *failure: object) -> None:
        _current.reset(self._token)
        if self._began is None:
            return
        took = thread_time() - self._began
        self.seconds -= took
        outer = self._outer
        while outer is not None and outer._began is None:  # one whose clock runs has counted the same time
            outer.seconds -= took
            outer = outer._outer

    def spend(self, units: int) -> None:
        """Raises BudgetExceeded, now and from then on, if fewer units are left, or no time."""
        self.left -= units
        if self.left < self._look:
            self._check()

    def spend_on_matching(self, nanoseconds: int) -> None:
        """Spends the time that matching took. Raises MatchingExceeded, now and from then on, if it takes too long."""
        self._matching -= nanoseconds // NANOSECONDS_PER_UNIT
        if self._matching < 0:
            raise MatchingExceeded
        self.spend(nanoseconds // NANOSECONDS_PER_UNIT)

    def _check(self) -> None:
        if self.left < 0:
            self._exceed()
        self.check_time()

    def check_time(self) -> None:
        """Raises BudgetExceeded if no time is left."""
        if not self._is_part:
            used = 0.0
        else:
            now = thread_time()
            if self._began is None:
                self._began = now
            used = now - self._began
            self._look = max(0, self.left - _STEP)
        if used >= self.seconds:
            self._exceed()

    def _exceed(self) -> None:
        self.left = 0
        raise BudgetExceeded


def spend(units: int) -> None:
    """Spends units of the current budget, if any; a unit is 0.1 µs. Raises BudgetExceeded."""
    budget = _current.get()
    if budget is not None:
        budget.left -= units
        if budget.left < budget._look:
            budget._check()


def check_time() -> None:
    """Raises BudgetExceeded if the parts of the current budget have used up its time."""
    budget = _current.get()
    if budget is not None:
        budget.check_time()


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)
