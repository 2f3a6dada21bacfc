"""Tenants wait for permits round-robin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from registry.flowcontrol.fair_permits import FairPermits, TooManyWaiting, set_owner
from tests.api.client import eventually


class Users:
    """Tasks that hold a permit until they are ended; `order` has the owners in the order in which they got one."""

    def __init__(self, permits: FairPermits) -> None:
        self._permits = permits
        self._ends: list[asyncio.Event] = []
        self.order: list[str] = []

    def start(self, owner: str) -> asyncio.Task[None]:
        return asyncio.create_task(self._use(owner))

    async def _use(self, owner: str) -> None:
        set_owner(owner)
        held_by = await self._permits.acquire()
        self.order.append(owner)
        end = asyncio.Event()
        self._ends.append(end)
        try:
            await end.wait()
        finally:
            self._permits.release(held_by)

    async def end_one(self) -> None:
        self._ends.pop(0).set()
        await iterate()


async def iterate() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_tenant_does_not_wait_for_the_queue_of_another() -> None:
    users = Users(FairPermits(1, 100))
    for owner in [*"aaaaaaaaaa", *"bb", "c"]:
        users.start(owner)
    await iterate()
    for _ in range(12):
        await users.end_one()
    assert "".join(users.order) == "aabcabaaaaaaa"


async def test_no_tenant_takes_all() -> None:
    """What one holds for long delays nobody else, however many callers it has."""
    users = Users(FairPermits(8, 100))
    for owner in [*"aaaaaaaaaa", *"bbbb", *"cc", "d"]:
        users.start(owner)
    await iterate()
    assert "".join(users.order) == "aaaabbcd"
    await users.end_one()
    await users.end_one()
    # Two are free, of which those that hold none or one may take one.
    assert "".join(users.order) == "aaaabbcdc"
    users.start("e")
    await iterate()
    assert users.order[-1] == "e"


async def test_the_process_itself_may_take_all() -> None:
    users = Users(FairPermits(4, 100))
    for owner in ["", "", "", "", "", "a"]:
        users.start(owner)
    await iterate()
    assert users.order == [""] * 4
    await users.end_one()
    await users.end_one()
    assert users.order == [*[""] * 5, "a"]


async def test_the_limit_of_waiting_callers_is_that_of_each_tenant() -> None:
    users = Users(FairPermits(1, 2))
    waiting = [users.start(owner) for owner in "aaaa"]
    other = users.start("b")
    await iterate()
    with pytest.raises(TooManyWaiting):
        await waiting[3]
    await users.end_one()
    await users.end_one()
    assert users.order == ["a", "a", "b"]
    assert not other.done()


@pytest.mark.parametrize(
    "cancel_when_granted", [pytest.param(False, id="waiting"), pytest.param(True, id="just granted")]
)
async def test_a_caller_that_is_cancelled_takes_no_permit(cancel_when_granted: bool) -> None:
    permits = FairPermits(1, 100)
    owner = await permits.acquire()
    first, second = (asyncio.create_task(permits.acquire()) for _ in range(2))
    await iterate()
    steps: list[Callable[[], object]] = [first.cancel, lambda: permits.release(owner)]
    for step in reversed(steps) if cancel_when_granted else steps:
        step()
    await iterate()
    assert first.cancelled()
    assert second.done()
    permits.release(owner)
    await asyncio.wait_for(permits.acquire(), 10)


async def test_what_a_request_starts_waits_in_its_tenants_turn() -> None:
    permits = FairPermits(1, 1)
    owner = await permits.acquire()

    async def request(owner: str) -> None:
        set_owner(owner)
        await asyncio.create_task(permits.acquire())

    first, second = asyncio.create_task(request("a")), asyncio.create_task(request("a"))

    async def is_refused() -> bool:
        return second.done()

    await eventually(is_refused)
    with pytest.raises(TooManyWaiting):
        await second
    permits.release(owner)
    await first
