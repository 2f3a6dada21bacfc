"""A few of many callers continue in each iteration of the event loop."""

from __future__ import annotations

import asyncio
from functools import partial

from registry.flowcontrol.rounds import Rounds

MOST = 3


async def iterations(turns: list[asyncio.Task[None]]) -> list[int]:
    """How many have ended after each iteration, until all have."""
    found = []
    while not all(turn.done() for turn in turns):
        await asyncio.sleep(0)
        found.append(sum(turn.done() for turn in turns))
    return found


async def test_few_callers_do_not_wait() -> None:
    rounds = Rounds(MOST)
    for _ in range(3):
        iterations_before = asyncio.create_task(asyncio.sleep(0))
        for _ in range(MOST):
            await rounds.turn()
        assert not iterations_before.done()
        await iterations_before


async def test_many_callers_continue_a_few_at_a_time_and_in_order() -> None:
    rounds = Rounds(MOST)
    order: list[int] = []

    async def work(number: int) -> None:
        await rounds.turn()
        order.append(number)

    ended = await iterations([asyncio.create_task(work(i)) for i in range(20)])
    assert order == [*range(20)]
    assert max(after - before for before, after in zip([0, *ended], ended, strict=False)) == MOST


async def test_callers_that_are_cancelled_take_no_turn() -> None:
    rounds = Rounds(MOST)
    turns = [asyncio.create_task(rounds.turn()) for _ in range(20)]
    await asyncio.sleep(0)
    for turn in turns[MOST:-1]:
        turn.cancel()
    ended = await iterations(turns)
    assert not turns[-1].cancelled()
    assert len(ended) <= 4


async def test_work_goes_on_after_a_pause() -> None:
    rounds = Rounds(MOST)
    for _ in range(2):
        ended = await iterations([asyncio.create_task(rounds.turn()) for _ in range(10)])
        assert ended[-1] == 10
        for _ in range(5):
            await asyncio.sleep(0)


async def test_flows_take_turns() -> None:
    rounds = Rounds(MOST)
    order: list[str] = []

    def work(name: str) -> bool:
        order.append(name)
        return True

    for i in range(9):
        rounds.run(partial(work, f"a{i}"), "a")
    rounds.run(partial(work, "b0"), "b")
    rounds.run(partial(work, "b1"), "b")
    assert order == ["a0", "a1", "a2"]
    await asyncio.sleep(0)
    assert order[3:] == ["a3", "b0", "a4"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert order[6:] == ["b1", "a5", "a6", "a7", "a8"]
