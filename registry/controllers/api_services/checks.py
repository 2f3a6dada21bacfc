"""When the server of one APIService is checked: at once, then at intervals, and sooner after a failure or a change.

A waiting check is a timer, so a process can keep many of them. Follows kube-aggregator
pkg/controllers/status/remote/remote_available_controller.go, whose work queue has one item for each APIService.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable
from typing import Final

from registry.aggregation.availability import CHECK_SECONDS
from registry.aggregation.model import APIServer

# The first retry delay for an unavailable server, which doubles up to the usual interval.
FIRST_RETRY_SECONDS: Final = 0.5
# The shortest interval between the beginnings of two checks of a server.
PAUSE_SECONDS: Final = 0.1

# Checks a server; returns whether it is available and its resources are known.
CheckServer = Callable[["ServerCheck"], Awaitable[bool]]


class ServerCheck:
    """The checks of one server, one at a time, until `close`."""

    def __init__(self, server: APIServer, check: CheckServer, every_seconds: float) -> None:
        self.server = server
        self.is_first = True
        # Set once its availability is known, and once its resources have been read.
        self.evaluated = asyncio.Event()
        self.checked = asyncio.Event()
        self._check = check
        self._every_seconds = every_seconds
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._wanted_at = time.monotonic()
        self._began_at = self._restarted_at = -math.inf
        self._again = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._begins_at = 0.0
        self._schedule(0.0)

    def wake(self) -> None:
        """Checks now, or when a check that is under way has ended."""
        if self._task is None:
            self._schedule(0.0)
        else:
            self._again = True

    def restart(self) -> None:
        """Checks now, since the service has changed.

        A check that is under way is cancelled, unless one was a few seconds ago: a service that is written all the time
        must not keep its server from being checked.
        """
        if time.monotonic() < self._restarted_at + CHECK_SECONDS:
            self.wake()
            return
        self._restarted_at = time.monotonic()
        self.close()
        self._schedule(0.0)

    def hurry(self, seconds: float) -> None:
        """Makes the next check begin within `seconds`."""
        if self._task is None and self._timer is not None:
            self._schedule(min(self._begins_at - time.monotonic(), seconds))

    def close(self) -> asyncio.Task[None] | None:
        """Ends the checks; returns the one that is being cancelled."""
        if self._timer is not None:
            self._timer.cancel()
        task, self._task, self._timer = self._task, None, None
        if task is not None:
            task.cancel()
        return task

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Waits for `evaluated` or `checked`, until the first check is `seconds` old."""
        left = self._wanted_at + seconds - time.monotonic()
        if left > 0 and not event.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await event.wait()

    def _schedule(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        pause = self._began_at + PAUSE_SECONDS - time.monotonic()
        delay = max(seconds, pause, 0.0)
        self._begins_at = time.monotonic() + delay
        self._timer = asyncio.get_running_loop().call_later(delay, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._again = False
        self._began_at = time.monotonic()
        self._task = asyncio.create_task(self._run(), name=f"check of {self.server.name}")

    async def _run(self) -> None:
        is_fine = await self._check(self)
        self.is_first = False
        self.evaluated.set()
        self.checked.set()
        delay = self._every_seconds if is_fine else self._retry_seconds
        self._retry_seconds = FIRST_RETRY_SECONDS if is_fine else min(2 * self._retry_seconds, self._every_seconds)
        self._task = None
        self._schedule(0.0 if self._again else delay)
