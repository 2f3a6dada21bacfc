"""Tenants' activity in this process: requests and writes of the last minute, and open watches.

These figures are informational (`registry top`): they limit nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final, NamedTuple

from registry.flowcontrol.fair_queue import MAX_TENANTS

_WINDOW_SECONDS: Final = 60.0


class Figures(NamedTuple):
    """`requests` (without watches) and `writes` of the last minute, the older part of which is estimated."""

    requests: int = 0
    writes: int = 0
    watches: int = 0

    def plus(self, other: Figures) -> Figures:
        return Figures(self.requests + other.requests, self.writes + other.writes, self.watches + other.watches)


class _Tenant:
    """Counts of the current window and of the previous one."""

    __slots__ = ("before", "began", "requests", "watches", "writes")

    def __init__(self, now: float) -> None:
        self.began = now
        self.requests = self.writes = self.watches = 0
        self.before = (0, 0)

    def turn(self, now: float) -> None:
        """Starts a new window if the current one is over."""
        windows = int((now - self.began) // _WINDOW_SECONDS)
        if windows > 0:
            self.before = (self.requests, self.writes) if windows == 1 else (0, 0)
            self.requests = self.writes = 0
            self.began += windows * _WINDOW_SECONDS

    def figures(self, now: float) -> Figures:
        self.turn(now)
        rest = 1 - (now - self.began) / _WINDOW_SECONDS
        return Figures(
            round(self.requests + self.before[0] * rest), round(self.writes + self.before[1] * rest), self.watches
        )


class Activity:
    """Activity by tenant name; beyond MAX_TENANTS those idle longest are dropped."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()

    def begin(self, name: str, *, watch: bool, write: bool, now: float | None = None) -> None:
        """Counts a request; for a watch `end_watch` must follow."""
        now = time.monotonic() if now is None else now
        tenant = self._tenants.get(name)
        if tenant is None:
            tenant = self._tenants[name] = _Tenant(now)
            self._forget_idle()
        else:
            self._tenants.move_to_end(name)
            tenant.turn(now)
        if watch:
            tenant.watches += 1
        else:
            tenant.requests += 1
            tenant.writes += write

    def end_watch(self, name: str) -> None:
        if (tenant := self._tenants.get(name)) is not None and tenant.watches:
            tenant.watches -= 1

    def of(self, name: str, now: float | None = None) -> Figures:
        tenant = self._tenants.get(name)
        return Figures() if tenant is None else tenant.figures(time.monotonic() if now is None else now)

    def busy(self, now: float | None = None) -> dict[str, Figures]:
        """Returns the tenants that are active, or were within the last minute."""
        now = time.monotonic() if now is None else now
        by_name = {name: tenant.figures(now) for name, tenant in self._tenants.items()}
        return {name: figures for name, figures in by_name.items() if figures != Figures()}

    def _forget_idle(self) -> None:
        """Drops idle tenants; those with open watches move to the end, so that the end of a watch is counted."""
        for _ in range(min(16, len(self._tenants) - MAX_TENANTS)):
            name, tenant = self._tenants.popitem(last=False)
            if tenant.watches:
                self._tenants[name] = tenant
