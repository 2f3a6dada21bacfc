"""The history of a campaign's clients: recorded by actors.py, validated by checker.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from registry.store.lost import Lost, resume_after

# Without an answer, or with a 500: the write may have been made.
UNKNOWN: Final = 0


@dataclass(frozen=True, slots=True)
class Write:
    """A create, patch or deletion of the object `name`. Each create and patch writes a number of its own, `token`.

    `began` and `ended` are of one monotonic clock. `revision` is that of the answer, 0 without one.
    """

    tenant: str
    verb: str  # ADDED, MODIFIED or DELETED, as its event is called
    name: str
    token: int
    began: float
    ended: float
    code: int
    revision: int = 0

    @property
    def is_acknowledged(self) -> bool:
        return self.code in (200, 201)

    @property
    def is_refused(self) -> bool:
        """The server says that nothing was written."""
        return self.code not in (UNKNOWN, 500, 504) and not self.is_acknowledged

    def is_lost(self, lost: Lost) -> bool:
        """It was acknowledged, and a failover has lost it: `lost` as in the table of domains."""
        return self.is_acknowledged and self.revision > 0 and resume_after(self.revision, lost) is None


@dataclass(frozen=True, slots=True)
class Read:
    """An object as it was found: `token` is None where it was not."""

    tenant: str
    name: str
    began: float
    ended: float
    token: int | None
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """All pages of a list, which are of one revision: `objects` is name → (revision, token)."""

    tenant: str
    began: float
    ended: float
    revision: int
    objects: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Event:
    """Of a watch; a BOOKMARK has no name."""

    type: str
    revision: int
    name: str = ""
    token: int = 0


@dataclass(slots=True)
class Watch:
    """A chain of watches, each resumed from the last event of the one before, until one got 410: all after `start`, of
    the objects whose names begin with `prefix`."""

    tenant: str
    start: int
    events: list[Event] = field(default_factory=list)
    prefix: str = ""

    @property
    def position(self) -> int:
        return self.events[-1].revision if self.events else self.start


@dataclass(frozen=True, slots=True)
class Change:
    """A row of the change log: the truth."""

    revision: int
    type: str
    name: str
    token: int


@dataclass(frozen=True, slots=True)
class Views:
    """What the SQL views of a tenant show: the objects as in a Listing, and their history after the revision up to
    which the log is compacted."""

    objects: dict[str, tuple[int, int]]
    history: list[Change]
    compacted: int = 0


@dataclass(slots=True)
class Log:
    """The change log of a tenant. `revisions` are those of its whole domain, of all resources; `lost` as in the table
    of domains; `objects` is what stands there at the end, as in a Listing."""

    changes: list[Change]
    revisions: list[int]
    lost: list[int]
    objects: dict[str, tuple[int, int]]
    views: Views | None = None


@dataclass(slots=True)
class History:
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
