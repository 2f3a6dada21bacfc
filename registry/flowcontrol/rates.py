"""Rate limits of tenants, from the tenant object (spec.quotas), counted by each process separately.

Beyond a limit the answer is 429, with the seconds after which to retry.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping

from registry.flowcontrol.fair_queue import MAX_TENANTS, TooManyRequests


class Flow:
    """The requests of one tenant with rates in this process."""

    __slots__ = ("_filled", "_tokens", "running", "watches")

    def __init__(self, now: float) -> None:
        self.running = 0
        self.watches = 0
        self._tokens = math.inf  # the maximum is known only when a request arrives
        self._filled = now

    def take(self, per_second: float, now: float) -> float:
        """Takes one of `per_second` tokens; returns 0, or how many seconds until there is one."""
        # A request that has waited for its turn may bring an older time than the previous one.
        self._tokens = min(per_second, self._tokens + max(0.0, now - self._filled) * per_second)
        self._filled = max(now, self._filled)
        if self._tokens < 1:
            return (1 - self._tokens) / per_second
        self._tokens -= 1
        return 0.0


class Rates:
    """The rates of the tenants that have any."""

    def __init__(self) -> None:
        self._flows: OrderedDict[int, Flow] = OrderedDict()

    def enter(self, tenant: int, rates: Mapping[str, float] | None, now: float, *, watch: bool) -> Flow | None:
        """Counts a request that starts, and returns what has to `leave`; None for a tenant without rates.

        Raises TooManyRequests, with the seconds after which to retry.
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
