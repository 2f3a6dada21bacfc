"""Servers of campaigns: `python -m tests.faults.defects <name> serve ...` is `registry serve` with one thing broken.

The harness must find each: it shows that the checker bites. They are patches of the tests, so no server has them. With
`none` nothing is broken. Bookmarks come after a tenth of a second without changes: campaigns leave few watches quiet for
longer.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import random
import sys
import time
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from registry.api.verbs import watch
from registry.cli.root import main
from registry.store.commit.writer import Writer
from registry.store.feed.domain_feed import DomainFeed
from registry.store.feed.subscription import Subscription
from registry.store.types import Batch, Change, ChangeType, Committed, Tenant, TenantId, Write

# How often it strikes, of all times that it could.
SHARE: Final = 0.3

Changes = list[tuple[TenantId, Change]]


def strikes() -> bool:
    return random.random() < SHARE


def _break_publishing(damage: Callable[[Changes], Changes]) -> None:
    publish = DomainFeed.publish

    def broken(self: DomainFeed, changes: Changes) -> None:
        position = changes[-1][1].revision
        if left := damage(changes):
            publish(self, left)
        self.position = max(self.position, position)

    DomainFeed.publish = broken  # type: ignore[method-assign]


def skip_a_row() -> None:
    _break_publishing(lambda changes: [one for one in changes if not strikes()])


def drop_a_delete() -> None:
    _break_publishing(lambda changes: [one for one in changes if one[1].type != ChangeType.DELETED or not strikes()])


def reorder() -> None:
    """A change comes after those that are published next. What is published together may be a single one each time."""
    late: Changes = []

    def swap(changes: Changes) -> Changes:
        if late:
            changes = [*changes, *late]
            late.clear()
        elif strikes():
            late.append(changes[0])
            changes = changes[1:]
        return changes

    _break_publishing(swap)


def reuse_a_revision() -> None:
    commit = Writer.commit

    async def broken(self: Writer, tenant: Tenant, write: Write) -> Committed:
        committed = await commit(self, tenant, write)
        return replace(committed, revision=committed.revision - 1) if strikes() else committed

    Writer.commit = broken  # type: ignore[method-assign]


def lie_in_a_bookmark() -> None:
    """It promises three revisions that have not been sent."""
    next_batch = Subscription.next_batch

    async def broken(self: Subscription, timeout: float | None = None) -> Batch:  # noqa: ASYNC109
        batch = await next_batch(self, timeout)
        return batch if batch.changes else Batch(batch.changes, batch.revision + 3)

    Subscription.next_batch = broken  # type: ignore[method-assign]


NONE: Final = "none"
DEFECTS: Final[dict[str, Callable[[], None]]] = {
    "skip-a-row": skip_a_row,
    "reorder": reorder,
    "reuse-a-revision": reuse_a_revision,
    "drop-a-delete": drop_a_delete,
    "lie-in-a-bookmark": lie_in_a_bookmark,
}


def module_of(defect: str = NONE) -> tuple[str, ...]:
    """The module to run in place of `registry`, and its argument."""
    return ("tests.faults.defects", defect)


def follow_clock(file: Path) -> None:
    """The clock of this process goes wrong by the seconds that the file says, as one that jumps: all modules of ours get
    that time of day. Times that pass (time.monotonic) stay right, as on a machine whose clock is set."""
    asked, offset = 0.0, 0.0
    right = time.time

    def wrong() -> float:
        nonlocal asked, offset
        if (now := time.monotonic()) - asked > 0.05:
            asked = now
            with contextlib.suppress(OSError, ValueError):
                offset = float(file.read_text())
        return right() + offset

    class Jumping(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.fromtimestamp(wrong(), tz)

    ours = types.ModuleType("datetime")
    ours.__dict__.update(datetime.__dict__, datetime=Jumping)
    time.time = wrong
    importlib.import_module("registry.http.app")
    for name, module in list(sys.modules.items()):
        if name.startswith("registry.") and getattr(module, "datetime", None) is datetime:
            vars(module)["datetime"] = ours


def _run(arguments: list[str]) -> Any:
    watch.BOOKMARK_SECONDS = 0.1
    if "--data-dir" in arguments:
        follow_clock(Path(arguments[arguments.index("--data-dir") + 1]) / "clock")
    if arguments[0] != NONE:
        DEFECTS[arguments[0]]()
    return main(arguments[1:])


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
