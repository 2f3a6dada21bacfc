"""Statistics of a resource: a parameter of a list that Kubernetes does not have (right: list).

    GET .../widgets?statistics=true&sinceSeconds=86400&buckets=48     objects and writes over time
    GET .../widgets?statistics=true&conditions=true                   and the status of their conditions

Writes are counted in the change log, so the figures are exact as far back as it is kept. Conditions are read from the
objects, in the order of their keys, up to a bound that the answer reports; how many there were before is worked back
from the present numbers by what each write changed. Documented in docs/statistics.md.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from registry.api.answers import DocumentAnswer
from registry.api.errors import bad_request
from registry.api.list_options import ListOptions
from registry.api.options import Query, is_true
from registry.api.request import ResourceRequest
from registry.api.verbs.readable import row_texts
from registry.api.verbs.selection import Selection, parse_selection
from registry.codec.stored import decode_stored
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.reads.statistics import MAX_WRITES, Statistics, TooManyWrites
from registry.store.types import ChangeType, LoggedChange, ObjectKey

API_VERSION: Final = "statistics.registry/v1"
PARAMETER: Final = "statistics"
DEFAULT_SECONDS: Final = 86_400
MAX_SECONDS: Final = 366 * 86_400
DEFAULT_BUCKETS: Final = 48
MAX_BUCKETS: Final = 500
# Limits on the objects whose conditions are read, and their bytes: about a second of work, in time slices.
MAX_OBJECTS: Final = 50_000
MAX_BYTES: Final = 256 << 20
# Pairs of type and status that are counted; objects may contain any.
MAX_STATES: Final = 50
# Upper bounds in seconds of the classes of time in a status; the last class has no bound.
CLASSES: Final = (60, 600, 3_600, 21_600, 86_400, 604_800)
_PARAMETERS: Final = frozenset({PARAMETER, "sinceSeconds", "buckets", "conditions", "pretty"})


def is_of(verb: str, subresource: str, query: Query) -> bool:
    return verb == "list" and not subresource and is_true(query, PARAMETER)


async def serve(request: ResourceRequest) -> DocumentAnswer:
    """Returns a document of kind Statistics. Raises 400 for parameters of other lists, and for too many writes."""
    if unknown := sorted(request.query.keys() - _PARAMETERS):
        raise bad_request(f"statistics are of all objects, so {unknown[0]} cannot be a parameter")
    if request.context.wildcard is not None:
        raise bad_request("statistics are of one tenant")
    seconds = _number(request.query, "sinceSeconds", DEFAULT_SECONDS, MAX_SECONDS)
    buckets = _number(request.query, "buckets", DEFAULT_BUCKETS, MAX_BUCKETS)
    try:
        statistics = await request.backend.store.statistics.of_resource(
            request.tenant,
            request.served.resource_name,
            namespace=request.namespace or None,
            seconds=seconds,
            buckets=buckets,
        )
    except TooManyWrites as error:
        raise bad_request(
            f"there were more than {MAX_WRITES} writes in {seconds} seconds: choose a smaller sinceSeconds"
        ) from error
    request.check_fresh(statistics.state)
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Statistics",
        "metadata": {"resourceVersion": str(statistics.state.revision)},
        "since": _time(statistics.since),
        "until": _time(statistics.until),
        "objects": statistics.objects,
        "buckets": list(_buckets(statistics, buckets)),
    }
    if is_true(request.query, "conditions"):
        body["conditions"] = await _conditions(request, statistics, buckets)
    return DocumentAnswer(body)


def _number(query: Query, name: str, default: int, highest: int) -> int:
    text = query[name][0] if name in query else str(default)
    if text.isascii() and text.isdecimal() and len(text) < 12 and 1 <= int(text) <= highest:
        return int(text)
    raise bad_request(f"{name}: must be a number from 1 to {highest}")


def _buckets(statistics: Statistics, count: int) -> Iterator[dict[str, Any]]:
    """Yields each interval: its beginning, its writes, and the number of objects at its end."""
    created, updated, deleted = (
        [statistics.writes.get((place, kind), 0) for place in range(count)]
        for kind in (ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED)
    )
    objects = statistics.objects - sum(created) + sum(deleted)
    for place in range(count):
        objects += created[place] - deleted[place]
        yield {
            "time": _time(statistics.since + (statistics.until - statistics.since) * place / count),
            "created": created[place],
            "updated": updated[place],
            "deleted": deleted[place],
            "objects": objects,
        }


async def _conditions(request: ResourceRequest, statistics: Statistics, buckets: int) -> dict[str, Any]:
    """Counts the objects in each status of each condition: now, by time in that status, and at each interval."""
    selection: Selection = parse_selection(request, ListOptions())
    slices = TimeSlice.current()
    states: dict[tuple[str, str], list[float | None]] = {}
    examined = size = revision = 0
    complete = True
    async with aclosing(selection.pages()) as pages:
        async for page in pages:
            if examined + len(page.rows) > MAX_OBJECTS or size > MAX_BYTES:
                complete = False
                break
            examined += len(page.rows)
            size += page.size
            revision = page.revision
            for text in await row_texts(request, page.rows):
                for one in conditions_of(text):
                    if (one.type, one.status) in states or len(states) < MAX_STATES:
                        seconds = None if one.since is None else max((statistics.until - one.since).total_seconds(), 0)
                        states.setdefault((one.type, one.status), []).append(seconds)
                if slices.expired():
                    await slices.yield_for_client()
    body: dict[str, Any] = {
        "examined": examined,
        "complete": complete,
        "states": [_state(*key, seconds) for key, seconds in sorted(states.items())],
    }
    present = {key: len(seconds) for key, seconds in states.items()}
    if (
        complete
        and (counts := await counts_by_time(request, statistics, buckets, revision, present, MAX_STATES)) is not None
    ):
        body["counts"] = counts
    return body


def _state(type_: str, status: str, seconds: list[float | None]) -> dict[str, Any]:
    known = sorted(one for one in seconds if one is not None)
    state: dict[str, Any] = {"type": type_, "status": status, "objects": len(seconds)}
    if known:
        below = [sum(one < bound for one in known) for bound in CLASSES]
        counts = [high - low for low, high in zip([0, *below], [*below, len(known)], strict=True)]
        state["medianSeconds"] = round(known[len(known) // 2])
        state["durations"] = [
            {**({"belowSeconds": bound} if bound else {}), "objects": count}
            for bound, count in zip((*CLASSES, None), counts, strict=True)
        ]
    return state


def _time(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# -- conditions over time, by the states before and after each write: the order of reading does not matter
# Limits on the writes that are read, and the bytes of their states: about a second of work, in time slices.
MAX_CHANGES: Final = 20_000
MAX_CHANGED_BYTES: Final = 128 << 20
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
            yield StatusCondition(one["type"], one["status"], _moment(one.get("lastTransitionTime")))


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
        if read > MAX_CHANGES or size > MAX_CHANGED_BYTES:
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


def _moment(value: object) -> datetime.datetime | None:
    try:
        moment = datetime.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
