"""Runs a coroutine on each of the event loops that can serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop

Work = Callable[[], Coroutine[Any, Any, None]]


def on_asyncio(work: Work) -> None:
    asyncio.run(work())


def on_uvloop(work: Work) -> None:
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(work())
