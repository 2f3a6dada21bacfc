"""Housekeeping of the database: one process at a time runs its steps, again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from registry.store.database import Database
from registry.store.errors import StoreError
from registry.store.leader import Leader

logger = logging.getLogger(__name__)

# How often the steps run, in one of all processes.
INTERVAL_SECONDS: Final = 60.0
# How long a process leads: it renews its lease in time, although the steps take some seconds.
LEASE_SECONDS: Final = 1.5 * INTERVAL_SECONDS


async def run_housekeeping(
    database: Database, leader: Leader, steps: Sequence[Callable[[], Awaitable[object]]]
) -> None:
    """Runs the steps in their order while this process leads, until cancelled. A step that fails ends the round."""
    try:
        while True:
            try:
                if await leader.acquire():
                    for step in steps:
                        await step()
            except StoreError as error:
                database.log_failure(logger, "housekeeping failed: %s", error)
            await asyncio.sleep(INTERVAL_SECONDS)
    finally:
        await leader.release()
