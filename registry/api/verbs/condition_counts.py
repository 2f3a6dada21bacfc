"""Counts the objects with each status of each condition over time, for statistics.py.

Works back from the present numbers by what each write changed. The change log has the state before and after each
write, so the order of reading does not matter.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from registry.api.request import ResourceRequest
from registry.codec.stored import decode_stored
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.reads.statistics import Statistics
from registry.store.types import ChangeType, LoggedChange, ObjectKey

# Limits on the writes that are read, and the bytes of their states: about a second of work, in time slices.
MAX_CHANGES: Final = 20_000
MAX_BYTES: Final = 128 << 20
_PAGE: Final = 500
# Stored bodies begin after this prefix.
_HEAD: Final = '{"metadata":{'

Status = tuple[str, str]


class StatusCondition(NamedTuple):
    """A condition of the usual form. `since` is None if `lastTransitionTime` is not a valid time."""

    type: str
    status: str
    since: datetime.datetime | None


def conditions_of(text: str) -> Iterator[StatusCondition]:
    """Yields the conditions of the usual form in an object's JSON; a schema may allow anything in their place."""
    if '"conditions"' not in text:
        return
    status = decode_stored(text).get("status")
    entries = status.get("conditions") if isinstance(status, dict) else None
    for one in entries if isinstance(entries, list) else ():
        if isinstance(one, dict) and isinstance(one.get("type"), str) and isinstance(one.get("status"), str):
            yield StatusCondition(one["type"], one["status"], _time(one.get("lastTransitionTime")))


async def counts_by_time(
    request: ResourceRequest,
    statistics: Statistics,
    buckets: int,
    revision: int,
    present: Mapping[Status, int],
    limit: int,
) -> list[dict[str, Any]] | None:
    """Returns the number of objects by type and status at the end of each interval; None if there are too many writes.

    `present` has the numbers of all objects at `revision`. At most `limit` pairs of type and status are counted.
    """
    changed: dict[Status, Counter[int]] = {status: Counter() for status in present}
    slices = TimeSlice.current()
    length = (statistics.until - statistics.since) / buckets
    after: tuple[ObjectKey, int] | None = None
    read = size = 0
    while changes := await request.backend.store.statistics.changes_since(
        request.tenant,
        request.served.resource_name,
        namespace=request.namespace or None,
        since=statistics.since,
        upto=revision,
        after=after,
        limit=_PAGE,
    ):
        read += len(changes)
        size += sum(change.size for change in changes)
        if read > MAX_CHANGES or size > MAX_BYTES:
            return None
        for change in changes:
            place = min(int((change.at - statistics.since) / length), buckets - 1)
            for status, difference in _differences(change).items():
                if status in changed or len(changed) < limit:
                    changed.setdefault(status, Counter())[place] += difference
            if slices.expired():
                await slices.yield_for_client()
        after = changes[-1].key, changes[-1].revision
    return [
        {"type": kind, "status": status, "objects": _backwards(present.get((kind, status), 0), differences, buckets)}
        for (kind, status), differences in sorted(changed.items())
    ]


def _differences(change: LoggedChange) -> Counter[Status]:
    """Returns by how much the write changed the number of objects of each status."""
    before = None if change.type is ChangeType.ADDED else change.previous_body
    now = None if change.type is ChangeType.DELETED else change.body
    difference = Counter(_statuses(now))
    difference.subtract(_statuses(before))
    return difference


def _statuses(body: str | None) -> list[Status]:
    return [] if body is None else [(one.type, one.status) for one in conditions_of(_HEAD + body)]


def _backwards(present: int, differences: Mapping[int, int], buckets: int) -> list[int]:
    """Returns the numbers at the ends of the intervals, the last of which is `present`."""
    out = []
    for place in reversed(range(buckets)):
        # Can be negative: converted versions may have had other conditions than the stored ones.
        out.append(max(present, 0))
        present -= differences.get(place, 0)
    return out[::-1]


def _time(value: object) -> datetime.datetime | None:
    try:
        moment = datetime.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
