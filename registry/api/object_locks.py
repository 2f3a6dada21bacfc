"""Changes of one object in one process take turns.

Without turns, patches of the same object that come at the same time read the same revision, and all but one of them
fail their commit and begin again: the work grows with the square of their number. In turn each finds what the last
has written; it is even handed over, so that nobody reads what this process has just written.

What is handed over may be old, for another process may have written since. It is only good for a commit, which checks
the revision; before anything else is said of the object (a refusal, that nothing changes) it is read.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from registry.store.types import Guards, ObjectKey, ResourceName, Row, TenantId

Identity = tuple[TenantId, ResourceName, ObjectKey]


class _Entry:
    """Those who want to change one object. Kept while anybody is in it."""

    __slots__ = ("lock", "members", "written")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.members = 0
        self.written: tuple[Row, Guards] | None = None


class ObjectLocks:
    """One for each process; as large as the number of changes that are under way."""

    def __init__(self) -> None:
        self._lines: dict[Identity, _Entry] = {}

    def lock(self, identity: Identity) -> ObjectLock:
        return ObjectLock(self._lines, identity)


class ObjectLock:
    """`async with turns.turn(identity) as turn:` waits for those who came before."""

    __slots__ = ("_identity", "_line", "_lines")

    def __init__(self, lines: dict[Identity, _Entry], identity: Identity) -> None:
        self._lines = lines
        self._identity = identity
        self._line = lines.get(identity) or lines.setdefault(identity, _Entry())

    async def __aenter__(self) -> Self:
        self._line.members += 1
        try:
            await self._line.lock.acquire()
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.lock.release()
        self._leave()

    def _leave(self) -> None:
        self._line.members -= 1
        if not self._line.members:
            self._lines.pop(self._identity, None)

    def take(self) -> tuple[Row, Guards] | None:
        """What the last in line has written, to be used once."""
        written, self._line.written = self._line.written, None
        return written

    def hand_over(self, row: Row, guards: Guards) -> None:
        self._line.written = (row, guards)
