"""Sinks of audit events: a file of JSON lines, and a table of PostgreSQL.

A sink has a bounded queue; while it is full, requests wait: no event is lost as long as the process lives and its disk
or database accepts writes. Events that cannot be written are counted (registry_audit_events_lost_total), logged and
dropped; they do not stop the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from prometheus_client import Counter

from registry.codec.json_encode import encode_json
from registry.store.errors import StoreError, Unstorable

logger = logging.getLogger(__name__)

QUEUE_EVENTS: Final = 10_000
BATCH_EVENTS: Final = 500
# How often a batch is tried while the database is unavailable, before it is dropped.
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 1.0

LOST: Final = Counter("registry_audit_events_lost_total", "Audit events that could not be written.")

Event = dict[str, Any]


class Sink(Protocol):
    async def put(self, event: Event) -> None: ...


class Queued:
    """A sink that passes batches of lines to `write`, one batch at a time."""

    def __init__(self, write: Callable[[Sequence[bytes]], Awaitable[None]]) -> None:
        self._write = write
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue(QUEUE_EVENTS)
        self._task = asyncio.create_task(self._run(), name="registry audit")

    async def put(self, event: Event) -> None:
        await self._queue.put(event)

    async def aclose(self) -> None:
        """Returns once all queued events have been written."""
        await self._queue.put(None)
        await self._task

    async def _run(self) -> None:
        ended = False
        while not ended:
            batch = [await self._queue.get()]
            while len(batch) < BATCH_EVENTS and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            ended = None in batch
            lines = [line for event in batch if event is not None and (line := _line(event))]
            if not lines:
                continue
            try:
                await self._write(lines)
            except (OSError, StoreError) as problem:
                LOST.inc(len(lines))
                logger.error("%d audit events are lost: %s", len(lines), problem)
            except Exception:
                LOST.inc(len(lines))
                logger.exception("%d audit events are lost", len(lines))


def _line(event: Event) -> bytes:
    """The event as a line; empty if it cannot be encoded: others must not be lost with it."""
    try:
        return encode_json(event) + b"\n"
    except Exception:
        LOST.inc()
        logger.exception("an audit event is lost")
        return b""


class Several:
    def __init__(self, sinks: Sequence[Queued]) -> None:
        self._sinks = sinks

    async def put(self, event: Event) -> None:
        for sink in self._sinks:
            await sink.put(event)

    async def aclose(self) -> None:
        for sink in self._sinks:
            await sink.aclose()


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
