"""Serializes the changes of one object in one process.

Otherwise concurrent patches of the same object would read the same revision, and all but one of them would fail their
commit and start again: the work would grow with the square of their number. Serialized, each starts from the last
result, which is even handed over, so that no request reads what this process has just written.

A row that is handed over may be outdated, as another process may have written since. It is only good for a commit,
which checks the revision; before any other answer (a refusal, or that nothing changes) the object is read
(verbs/driver.py).
"""

from __future__ import annotations

import asyncio
from typing import Self

from registry.store.types import Guards, ObjectKey, ResourceName, Row, TenantId

Identity = tuple[TenantId, ResourceName, ObjectKey]


class _Lock:
    """The changes of one object that hold the lock or wait for it. Exists while there are any."""

    __slots__ = ("lock", "members", "written")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.members = 0
        self.written: tuple[Row, Guards] | None = None


class ObjectLocks:
    """One for each process; as large as the number of changes in progress."""

    def __init__(self) -> None:
        self._entries: dict[Identity, _Lock] = {}

    def lock(self, identity: Identity) -> ObjectLock:
        return ObjectLock(self._entries, identity)


class ObjectLock:
    """`async with locks.lock(identity) as lock:` waits for earlier changes."""

    __slots__ = ("_entries", "_entry", "_identity")

    def __init__(self, entries: dict[Identity, _Lock], identity: Identity) -> None:
        self._entries = entries
        self._identity = identity
        self._entry = entries.get(identity) or entries.setdefault(identity, _Lock())

    async def __aenter__(self) -> Self:
        self._entry.members += 1
        try:
            await self._entry.lock.acquire()
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._entry.lock.release()
        self._leave()

    def _leave(self) -> None:
        self._entry.members -= 1
        if not self._entry.members:
            self._entries.pop(self._identity, None)

    def take(self) -> tuple[Row, Guards] | None:
        """Returns what the last change has written, once."""
        written, self._entry.written = self._entry.written, None
        return written

    def hand_over(self, row: Row, guards: Guards) -> None:
        self._entry.written = (row, guards)
