"""Rates of tenants: limits that a tenant's object names (spec.quotas), counted in each process by itself.

Beyond one the answer is 429, with the seconds after which the request may be tried again.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping

from registry.flowcontrol.fair_queue import MAX_TENANTS, TooManyRequests


class Flow:
    """What one tenant with rates does in this process."""

    __slots__ = ("_filled", "_tokens", "running", "watches")

    def __init__(self, now: float) -> None:
        self.running = 0
        self.watches = 0
        self._tokens = math.inf  # what there may be at the most is known when a request comes
        self._filled = now

    def take(self, per_second: float, now: float) -> float:
        """Takes a place of the `per_second` that come each second; how many seconds it takes until there is one."""
        # A request that has waited for its turn brings an older time than one before it.
        self._tokens = min(per_second, self._tokens + max(0.0, now - self._filled) * per_second)
        self._filled = max(now, self._filled)
        if self._tokens < 1:
            return (1 - self._tokens) / per_second
        self._tokens -= 1
        return 0.0


class Rates:
    """The rates of those tenants that have some."""

    def __init__(self) -> None:
        self._flows: OrderedDict[int, Flow] = OrderedDict()

    def enter(self, tenant: int, rates: Mapping[str, float] | None, now: float, *, watch: bool) -> Flow | None:
        """Counts a request that begins, and returns what has to `leave`; None for a tenant without rates.

        Raises TooManyRequests, with the seconds after which to try again.
        """
        if not rates:
            return None
        flow = self._flow(tenant, now)
        most = rates.get("watches" if watch else "concurrentRequests")
        if most is not None and (flow.watches if watch else flow.running) >= most:
            raise TooManyRequests
        per_second = rates.get("requestsPerSecond")
        if per_second is not None:
            seconds = flow.take(per_second, now)
            if seconds:
                raise TooManyRequests(math.ceil(seconds))
        if watch:
            flow.watches += 1
        else:
            flow.running += 1
        return flow

    @staticmethod
    def leave(flow: Flow, *, watch: bool) -> None:
        if watch:
            flow.watches -= 1
        else:
            flow.running -= 1

    def _flow(self, tenant: int, now: float) -> Flow:
        flow = self._flows.get(tenant)
        if flow is None:
            flow = self._flows[tenant] = Flow(now)
            self._drop_idle()
        else:
            self._flows.move_to_end(tenant)
        return flow

    def _drop_idle(self) -> None:
        for _ in range(min(16, len(self._flows) - MAX_TENANTS)):
            tenant, flow = self._flows.popitem(last=False)
            if flow.running or flow.watches:
                self._flows[tenant] = flow
