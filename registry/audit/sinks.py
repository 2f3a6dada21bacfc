"""Sinks of audit events: a file of JSON lines, and a table of PostgreSQL.

What waits to be written is bounded in bytes, of which each tenant has a fair share; while a tenant's is used up, its
requests wait before they are answered: no event is lost as long as the process lives and its disk or database accepts
writes. Events that cannot be written are counted (registry_audit_events_lost_total), logged and dropped; they do not
stop the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections import Counter as Counts
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prometheus_client import Counter

from registry.codec.json_encode import encode_json
from registry.store.errors import StoreError, Unstorable

logger = logging.getLogger(__name__)

# Lines that wait to be written, and bodies that requests keep for theirs. A tenant may have as much as is still free.
QUEUE_BYTES: Final = 64 << 20
BATCH_EVENTS: Final = 500
_BATCH_BYTES: Final = 4 << 20
# How often a batch is tried while the database is unavailable, before it is dropped.
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 1.0

LOST: Final = Counter("registry_audit_events_lost_total", "Audit events that could not be written.")

Event = dict[str, Any]


Write = Callable[[Sequence[bytes]], Awaitable[None]]


class Room:
    """Bytes, of which a tenant may have as many as are still free: alone half, so that others always find some."""

    def __init__(self, limit_bytes: int) -> None:
        self._free = limit_bytes
        self._held: Counts[str] = Counts()
        # First come, first served. No queue is empty.
        self._waiting: dict[str, deque[tuple[asyncio.Future[None], int]]] = {}

    def try_take(self, tenant: str, count: int) -> bool:
        """Takes so many if the tenant may have them."""
        if self._held[tenant] + count > self._free - count:
            return False
        self.take_beyond(tenant, count)
        return True

    def take_beyond(self, tenant: str, count: int) -> None:
        """Takes so many, whether or not the tenant may have them."""
        self._held[tenant] += count
        self._free -= count

    async def take(self, tenant: str, count: int) -> None:
        """Takes so many as soon as the tenant may have them."""
        if tenant not in self._waiting and self.try_take(tenant, count):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append((turn, count))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give_back(tenant, count)
            raise

    def give_back(self, tenant: str, count: int) -> None:
        self._held[tenant] -= count
        if not self._held[tenant]:
            del self._held[tenant]
        self._free += count
        for waiting in [*self._waiting]:
            self._wake(waiting)

    def _wake(self, tenant: str) -> None:
        queue = self._waiting[tenant]
        while queue:
            turn, count = queue[0]
            if not turn.done():
                if not self.try_take(tenant, count):
                    return
                turn.set_result(None)
            queue.popleft()
        del self._waiting[tenant]


@dataclass(slots=True, eq=False)
class _Line:
    """`left` counts the sinks that have not written it yet."""

    tenant: str
    data: bytes
    left: int


class Sinks:
    """Passes lines to each of `writes`, one batch at a time."""

    def __init__(self, writes: Sequence[Write], limit_bytes: int = QUEUE_BYTES) -> None:
        self.room = Room(limit_bytes)
        self._queues = [_Queued(write, self._finish) for write in writes]

    def put(self, tenant: str, data: bytes) -> None:
        """Adds a line to what waits to be written: `room` tells whether another one should wait."""
        if not data:
            return
        line = _Line(tenant, data, len(self._queues))
        self.room.take_beyond(tenant, len(data))
        for queue in self._queues:
            queue.put(line)

    def _finish(self, line: _Line) -> None:
        line.left -= 1
        if not line.left:
            self.room.give_back(line.tenant, len(line.data))

    async def aclose(self) -> None:
        """Returns once all lines have been written."""
        for queue in self._queues:
            await queue.aclose()


class _Queued:
    def __init__(self, write: Write, done: Callable[[_Line], None]) -> None:
        self._write = write
        self._done = done
        self._queue: asyncio.Queue[_Line | None] = asyncio.Queue()
        self._task = asyncio.create_task(self._run(), name="registry audit")

    def put(self, line: _Line) -> None:
        self._queue.put_nowait(line)

    async def aclose(self) -> None:
        self._queue.put_nowait(None)
        await self._task

    async def _run(self) -> None:
        ended = False
        while not ended:
            batch: list[_Line] = []
            size = 0
            while not ended and (not batch or (self._has_more and len(batch) < BATCH_EVENTS and size < _BATCH_BYTES)):
                line = await self._queue.get()
                ended = line is None
                if line is not None:
                    batch.append(line)
                    size += len(line.data)
            if not batch:
                continue
            try:
                await self._write([line.data for line in batch])
            except (OSError, StoreError) as problem:
                LOST.inc(len(batch))
                logger.error("%d audit events are lost: %s", len(batch), problem)
            except Exception:
                LOST.inc(len(batch))
                logger.exception("%d audit events are lost", len(batch))
            for line in batch:
                self._done(line)

    @property
    def _has_more(self) -> bool:
        return not self._queue.empty()


def line_of(event: Event) -> bytes:
    """The event as a line; empty if it cannot be encoded: others must not be lost with it."""
    try:
        return encode_json(event) + b"\n"
    except Exception:
        LOST.inc()
        logger.exception("an audit event is lost")
        return b""


class LogFile:
    """Appends lines to a file shared by several processes; a full file is renamed, and the oldest ones are removed.

    `audit.log` becomes `audit-2026-11-21T06-50-01.123.log`.
    """

    def __init__(self, path: Path, max_bytes: int, max_files: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._file = -1

    async def write(self, lines: Sequence[bytes]) -> None:
        await asyncio.to_thread(self.write_now, b"".join(lines))

    def write_now(self, data: bytes) -> None:
        if self._file < 0 or not self._is_current():
            self._open()
        size = os.fstat(self._file).st_size
        if size and size + len(data) > self._max_bytes:
            self._rotate()
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _open(self) -> None:
        self.close()
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _is_current(self) -> bool:
        """Whether the open file is still the one at the path: another process, or logrotate, may have renamed it."""
        try:
            there, ours = os.stat(self._path), os.fstat(self._file)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)

    def _rotate(self) -> None:
        with open(self._path.with_name(self._path.name + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._is_current():
                now = time.time()
                stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(now)) + f".{int(now * 1e6) % 1_000_000:06d}"
                os.rename(self._path, self._path.with_name(f"{self._path.stem}-{stamp}{self._path.suffix}"))
                old = sorted(self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"))
                for one in old[: max(0, len(old) - self._max_files)]:
                    with contextlib.suppress(OSError):
                        one.unlink()
            self._open()


def with_retries(insert: Callable[[Sequence[bytes]], Awaitable[None]]) -> Callable[[Sequence[bytes]], Awaitable[None]]:
    """Retries for some seconds, since the database may be restarting. What it refuses is tried in halves, so that only
    the event that it does not accept is lost.
    """

    async def write(lines: Sequence[bytes]) -> None:
        for left in range(_TRIES - 1, -1, -1):
            try:
                await insert(lines)
                return
            except Unstorable:
                if len(lines) == 1:
                    raise
                break
            except StoreError:
                if not left:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
        half = len(lines) // 2
        for part in (lines[:half], lines[half:]):
            try:
                await write(part)
            except Unstorable as problem:
                LOST.inc()
                logger.error("an audit event is lost: %s", problem)

    return write
