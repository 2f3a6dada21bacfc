"""Whether a history is one that the server may give, by the change log: each violation in one line.

    lost              with synchronous replication no acknowledged write is among what a failover has lost
    acknowledged      every write that was answered with success is in the log, at the revision of its answer
    refused           no write that was refused is; none is there twice
    revisions         the log of a domain has no holes but those of a failover
    linearizable      writes and reads that followed each other in time do so in revisions
    reads, lists      what was found is what the log says of that revision, and not older than what was known before
    watches           every event of the log, once, in its order, as it was; bookmarks promise nothing that is not so
    objects           the table of objects is what the log amounts to
    views             so are the SQL views, the one of objects and the one of their history

The order of all writes of a tenant is that of their revisions, so linearizability is decided exactly: no search for an
order is needed (unlike for a register without versions, where it is exponential).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from registry.store.lost import resume_after
from tests.faults.history import Change, History, Listing, Log, Read, Watch, Write

# Enough to see what is wrong.
MOST_VIOLATIONS = 20


def violations(history: History, logs: Mapping[str, Log], *, lossless: bool = True) -> list[str]:
    """`lossless`: no failover may have lost a write that was acknowledged."""
    found: list[str] = []
    for tenant, log in logs.items():
        writes = [write for write in history.writes if write.tenant == tenant]
        reads = [read for read in history.reads if read.tenant == tenant]
        listings = [listing for listing in history.listings if listing.tenant == tenant]
        for check in (
            check_acknowledged(writes, log),
            check_deletions(writes, log) if lossless else (),
            check_lost(writes, log) if lossless else (),
            check_refused(writes, log),
            check_revisions(log),
            check_time(writes, reads, listings, log),
            check_reads(reads, log),
            check_listings(listings, log),
            check_objects(log),
            check_views(log),
            *(check_watch(watch, log) for watch in history.watches if watch.tenant == tenant),
        ):
            found += [f"{tenant}: {line}" for line in check]
    return found[:MOST_VIOLATIONS]


def check_acknowledged(writes: list[Write], log: Log) -> Iterator[str]:
    at = {change.revision: change for change in log.changes}
    for write in writes:
        if not write.is_acknowledged or not write.revision or resume_after(write.revision, log.lost) is None:
            continue
        change = at.get(write.revision)
        expected = (write.verb, write.name)
        if change is None:
            yield f"acknowledged, and not in the log: {write}"
        elif (change.type, change.name) != expected or (write.verb != "DELETED" and change.token != write.token):
            yield f"acknowledged, and the log has something else there: {write}: {change}"


def check_deletions(writes: list[Write], log: Log) -> Iterator[str]:
    """Those that are answered with a Status, which has no revision, by their number."""
    deletions = [change.name for change in log.changes if change.type == "DELETED"]
    unnumbered = [write.name for write in writes if write.is_acknowledged and not write.revision]
    for name in sorted(set(unnumbered)):
        if unnumbered.count(name) > deletions.count(name):
            yield f"deletions acknowledged, and not in the log: {name}"


def check_lost(writes: list[Write], log: Log) -> Iterator[str]:
    for write in writes:
        if write.is_lost(log.lost):
            yield f"acknowledged, and lost in a failover: {write}"


def check_refused(writes: list[Write], log: Log) -> Iterator[str]:
    count: dict[int, int] = {}
    for change in log.changes:
        if change.type != "DELETED":
            count[change.token] = count.get(change.token, 0) + 1
    for write in writes:
        if write.is_refused and write.verb != "DELETED" and count.get(write.token):
            yield f"refused, and in the log: {write}"
    for token, times in count.items():
        if times > 1:
            yield f"written {times} times: {token}"


def check_revisions(log: Log) -> Iterator[str]:
    before = 0
    for revision in log.revisions:
        if revision != before + 1 and resume_after(before, log.lost) != revision - 1:
            yield f"revision {revision} follows {before}"
        before = revision


class _Point(NamedTuple):
    """Of something that was done and found or made `revision`."""

    began: float
    ended: float
    revision: int
    what: object


def check_time(writes: list[Write], reads: list[Read], listings: list[Listing], log: Log) -> Iterator[str]:
    """What ended before another thing began may have no higher revision than that, if both are of the whole tenant;
    a read of one object need not be newer than writes of others."""
    points = [_Point(w.began, w.ended, w.revision, w) for w in writes if w.is_acknowledged and w.revision]
    points += [_Point(one.began, one.ended, one.revision, one) for one in listings]
    points = [point for point in points if resume_after(point.revision, log.lost) is not None]
    yield from _out_of_order(points)
    yield from _stale_reads(writes, reads, log)


def _out_of_order(points: list[_Point]) -> Iterator[str]:
    by_end = sorted(points, key=lambda point: point.ended)
    newest, index = 0, 0
    newest_of: object = None
    for point in sorted(points, key=lambda point: point.began):
        while index < len(by_end) and by_end[index].ended < point.began:
            if by_end[index].revision > newest:
                newest, newest_of = by_end[index].revision, by_end[index].what
            index += 1
        if point.revision < newest:
            yield f"revision {point.revision} after {newest} was known: {point.what} after {newest_of}"


def _stale_reads(writes: list[Write], reads: list[Read], log: Log) -> Iterator[str]:
    changes: dict[str, list[Change]] = {}
    for change in log.changes:
        changes.setdefault(change.name, []).append(change)
    known: dict[str, _Known] = {}
    for write in sorted(writes, key=lambda write: write.ended):
        if write.is_acknowledged and resume_after(write.revision, log.lost) is not None:
            known.setdefault(write.name, _Known()).add(write)
    for read in reads:
        if resume_after(read.revision, log.lost) is None:
            continue
        revision = known[read.name].before(read.began) if read.name in known else 0
        if read.token is not None:
            if read.revision < revision:
                yield f"stale: {read}, when revision {revision} was known"
            continue
        # It was not there at some time since what was known: never yet, or it was deleted then or later.
        of_name = changes.get(read.name, [])
        index = bisect_right(of_name, revision, key=lambda change: change.revision)
        if index and all(change.type != "DELETED" for change in of_name[index - 1 :]):
            yield f"not found, though it is there since revision {revision}: {read}"


class _Known:
    """The newest revision of an object that clients knew at a time, by the answers to writes."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._revisions: list[int] = []

    def add(self, write: Write) -> None:
        """In the order of the answers."""
        self._times.append(write.ended)
        self._revisions.append(max(write.revision, self._revisions[-1] if self._revisions else 0))

    def before(self, moment: float) -> int:
        index = bisect_left(self._times, moment)
        return self._revisions[index - 1] if index else 0


def check_reads(reads: list[Read], log: Log) -> Iterator[str]:
    at = {change.revision: change for change in log.changes}
    for read in reads:
        if read.token is None or resume_after(read.revision, log.lost) is None:
            continue
        change = at.get(read.revision)
        if change is None or (change.name, change.token) != (read.name, read.token) or change.type == "DELETED":
            yield f"read what the log does not have: {read}: {change}"


def check_listings(listings: list[Listing], log: Log) -> Iterator[str]:
    state: dict[str, tuple[int, int]] = {}
    index = 0
    for listing in sorted(listings, key=lambda one: one.revision):
        if resume_after(listing.revision, log.lost) is None:
            continue
        while index < len(log.changes) and log.changes[index].revision <= listing.revision:
            _apply(state, log.changes[index])
            index += 1
        if listing.objects != state:
            different = {k for k in listing.objects.keys() | state.keys() if listing.objects.get(k) != state.get(k)}
            yield f"a list at {listing.revision} is not what the log says: {sorted(different)[:5]}"


def check_objects(log: Log) -> Iterator[str]:
    state: dict[str, tuple[int, int]] = {}
    for change in log.changes:
        _apply(state, change)
    if state != log.objects:
        different = sorted(k for k in state.keys() | log.objects.keys() if state.get(k) != log.objects.get(k))
        yield f"the objects are not what the log amounts to: {different[:5]}"


def check_views(log: Log) -> Iterator[str]:
    if log.views is None:
        return
    if log.views.objects != log.objects:
        shown, there = log.views.objects, log.objects
        different = sorted(name for name in shown.keys() | there.keys() if shown.get(name) != there.get(name))
        yield f"the view of objects does not show the objects: {different[:5]}"
    kept = [change for change in log.changes if change.revision > log.views.compacted]
    history = [change for change in log.views.history if change.revision > log.views.compacted]
    if history != kept:
        different_changes = set(history) ^ set(kept)
        yield f"the view of the history is not the log: {sorted(different_changes, key=lambda one: one.revision)[:5]}"


def _apply(state: dict[str, tuple[int, int]], change: Change) -> None:
    if change.type == "DELETED":
        state.pop(change.name, None)
    else:
        state[change.name] = (change.revision, change.token)


def check_watch(watch: Watch, log: Log) -> Iterator[str]:
    """Complete, ordered, without repetition, and true: up to its last event it is the log."""
    seen = [event for event in watch.events if event.type != "BOOKMARK"]
    position = watch.start
    for event in watch.events:
        # A bookmark may be at the revision of the event before it.
        if event.revision < position or (event.revision == position and event.type != "BOOKMARK"):
            yield f"{event} after revision {position}"
        position = max(position, event.revision)
    valid = [event for event in seen if resume_after(event.revision, log.lost) is not None]
    end = max((event.revision for event in watch.events if resume_after(event.revision, log.lost)), default=watch.start)
    expected = [
        change
        for change in log.changes
        if watch.start < change.revision <= end and change.name.startswith(watch.prefix)
    ]
    got = {event.revision: event for event in valid}
    for change in expected:
        shown = got.pop(change.revision, None)
        if shown is None:
            yield f"missed: {change} in a watch from {watch.start} to {end}"
        elif (shown.type, shown.name, shown.token) != (change.type, change.name, change.token):
            yield f"{shown} in place of {change}"
    for event in got.values():
        yield f"{event} is not in the log"
