"""The shutdown of a process: what it announces, and the time after which it is killed.

signal      /readyz fails, answers have Connection: close           Stopping.begin
  + delay   no more connections are accepted, watches end           Stopping
  + ...     requests in flight end; the application ends
at the      the process is killed: something hangs                  end_by
latest
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable

logger = logging.getLogger(__name__)


class Stopping(asyncio.Event):
    """Set when watches are to end. `is_stopping` is true before that, from the signal on."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._calls: set[Callable[[], None]] = set()

    @property
    def is_stopping(self) -> bool:
        return self._begun or self.is_set()

    def begin(self) -> None:
        self._begun = True

    def call(self, call: Callable[[], None]) -> None:
        """Has it called once this is set, until `forget`. A task that waits for it takes 1 kB."""
        self._calls.add(call)
        if self.is_set():
            call()

    def forget(self, call: Callable[[], None]) -> None:
        self._calls.discard(call)

    def set(self) -> None:
        super().set()
        for call in self._calls:
            call()


def end_by(seconds: float) -> None:
    """Kills this process after some seconds, from a separate thread, whatever hangs.

    An embedded PostgreSQL is then stopped by its own watchdog.
    """
    timer = threading.Timer(seconds, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    logger.critical("shutdown did not finish in time: exiting now")
    os._exit(1)
