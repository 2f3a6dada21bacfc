"""Work that waits for its share of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from registry.flowcontrol import loop_share
from registry.flowcontrol.loop_share import LoopShare
from registry.tasks import cancel
from tests.http.loops import on_asyncio, on_uvloop

PIECES = 40
PIECE_SECONDS = 0.004


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
def test_the_loop_is_not_asked_again_and_again_while_work_waits(
    run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer of less than a millisecond ends at once with uvloop: there were hundreds of them for each piece."""
    calls = 0
    at_once = LoopShare._next

    def count(self: LoopShare) -> None:
        nonlocal calls
        calls += 1
        at_once(self)

    monkeypatch.setattr(LoopShare, "_next", count)

    async def wait() -> float:
        share = LoopShare()
        began = time.monotonic()
        for _ in range(PIECES):
            await share.turn()
            share.charge(PIECE_SECONDS)
        return time.monotonic() - began

    async def waited() -> None:
        assert await wait() > PIECES * PIECE_SECONDS

    run(waited)
    assert PIECES / 2 < calls < 3 * PIECES


async def test_of_the_first_handshakes_two_begin_before_their_cost_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_share, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    share, begun = LoopShare(), 0

    async def begin() -> None:
        nonlocal begun
        await share.handshake_turn()
        begun += 1

    tasks = [asyncio.create_task(begin()) for _ in range(10)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert begun == 2
    await cancel(*tasks)
