"""Work that waits for its share of the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from registry.flowcontrol.loop_share import LoopShare
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
