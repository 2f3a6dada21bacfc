"""What is left in a fair queue when all requests are over."""

from __future__ import annotations

from registry.flowcontrol.fair_queue import FairQueue


def assert_idle(queue: FairQueue, now: float) -> None:
    """Nothing is left of the requests."""
    assert not queue._taken
    assert not queue._waiting
    assert not queue._yielded
    assert not queue._offered
    assert not any(seat.short_until >= now for seat in queue._short)
    assert queue._renewal is None
    assert queue._later is None
    assert not queue._resuming
    assert not queue._granting
