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

logger = logging.getLogger(__name__)


class Stopping(asyncio.Event):
    """Set when watches are to end. `is_stopping` is true before that, from the signal on."""

    def __init__(self) -> None:
        super().__init__()
        self._begun = False

    @property
    def is_stopping(self) -> bool:
        return self._begun or self.is_set()

    def begin(self) -> None:
        self._begun = True


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
