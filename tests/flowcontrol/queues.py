"""Fair queues whose clock stands still, and requests that wait in them."""

from __future__ import annotations

import asyncio

from registry.flowcontrol import fair_queue as fairness
from registry.flowcontrol.fair_queue import FairQueue

NOW = 1.0


def turns_of(*names: str) -> FairQueue:
    """By a clock that stands still: on a slow machine tenants would cease to be present in the middle of a test."""
    turns = FairQueue(lambda: NOW)
    for name in names:
        turns.mark_known(name)
    return turns


async def begin(turns: FairQueue, name: str, order: list[str]) -> None:
    """A request that waits once in its middle."""
    place = turns.try_acquire(name, NOW) or await turns.acquire(name)
    order.append(name)
    await asyncio.sleep(0)
    turns.release(place)


async def rounds(number: int = 20) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def present(turns: FairQueue, *names: str) -> list[fairness.Seat]:
    """Places of tenants that are all there."""
    places = [turns.try_acquire(name, NOW) for name in names]
    return [place for place in places if place is not None]
