"""The checker detects each kind of violation in an otherwise valid history, and none in a valid one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.checker import violations
from tests.faults.history import Change, Event, History, Listing, Log, Read, Watch, Write


def right() -> tuple[History, Log]:
    """Two creates, a patch, a deletion, and a create that was refused; revision 3 is of another resource."""
    log = Log(
        [
            Change(1, "ADDED", "a", 10),
            Change(2, "ADDED", "b", 11),
            Change(4, "MODIFIED", "a", 12),
            Change(5, "DELETED", "b", 11),
        ],
        [1, 2, 3, 4, 5],
        [],
        {"a": (4, 12)},
    )
    history = History(
        [
            Write("t", "ADDED", "a", 10, 0, 1, 201, 1),
            Write("t", "ADDED", "b", 11, 2, 3, 201, 2),
            Write("t", "ADDED", "a", 99, 3, 4, 409),
            Write("t", "MODIFIED", "a", 12, 5, 6, 200, 4),
            Write("t", "DELETED", "b", 0, 7, 8, 200, 0),
        ],
        [Read("t", "a", 6.5, 7, 12, 4), Read("t", "b", 8.5, 9, None)],
        [Listing("t", 3.5, 4.5, 2, {"a": (1, 10), "b": (2, 11)})],
        [
            Watch(
                "t",
                1,
                [
                    Event("ADDED", 2, "b", 11),
                    Event("BOOKMARK", 3),
                    Event("MODIFIED", 4, "a", 12),
                    Event("DELETED", 5, "b", 11),
                ],
            )
        ],
    )
    return history, log


def test_a_correct_history_passes() -> None:
    history, log = right()
    assert violations(history, {"t": log}) == []


Damage = Callable[[History, Log], object]


def _write(index: int, **changed: object) -> Damage:
    def damage(history: History, _log: Log) -> None:
        history.writes[index] = replace(history.writes[index], **changed)  # type: ignore[arg-type]

    return damage


def _events(*events: Event) -> Damage:
    def damage(history: History, _log: Log) -> None:
        history.watches[0].events = list(events)

    return damage


_SECOND, _FOURTH = Event("ADDED", 2, "b", 11), Event("MODIFIED", 4, "a", 12)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        pytest.param(lambda _h, log: log.changes.pop(2), "acknowledged, and not in the log", id="lost-write"),
        pytest.param(_write(0, revision=2), "the log has something else", id="revision-of-another"),
        pytest.param(_write(2, token=11), "refused, and in the log", id="refused-but-written"),
        pytest.param(lambda _h, log: log.changes.append(Change(6, "MODIFIED", "a", 12)), "written 2 times", id="doubled"),
        pytest.param(lambda _h, log: log.changes.pop(3), "deletions acknowledged", id="lost-deletion"),
        pytest.param(lambda _h, log: log.revisions.remove(3), "revision 4 follows 2", id="hole-in-the-log"),
        pytest.param(lambda _h, log: log.objects.clear(), "the objects are not", id="objects-beside-the-log"),
        pytest.param(
            lambda h, _l: h.reads.append(Read("t", "a", 6.5, 7, 10, 1)), "stale", id="read-behind-a-write"
        ),
        pytest.param(
            lambda h, _l: h.reads.append(Read("t", "a", 6.5, 7, None)), "not found, though", id="not-found-but-there"
        ),
        pytest.param(
            lambda h, _l: h.reads.append(Read("t", "a", 6.5, 7, 13, 4)), "the log does not have", id="read-of-nothing"
        ),
        pytest.param(
            lambda h, _l: h.listings.append(Listing("t", 9, 10, 2, {"a": (1, 10), "b": (2, 11)})),
            "after 4 was known",
            id="list-behind-a-write",
        ),
        pytest.param(
            lambda h, _l: h.listings.append(Listing("t", 9, 10, 5, {})), "a list at 5", id="list-without-an-object"
        ),
        pytest.param(_events(_FOURTH), "missed", id="missed-event"),
        pytest.param(_events(_FOURTH, _SECOND), "after revision 4", id="events-out-of-order"),
        pytest.param(_events(_SECOND, _SECOND), "after revision 2", id="event-repeated"),
        pytest.param(_events(Event("MODIFIED", 2, "b", 11)), "in place of", id="event-of-another-type"),
        pytest.param(_events(Event("ADDED", 3, "c", 1)), "is not in the log", id="event-of-nothing"),
        pytest.param(
            _events(_SECOND, Event("BOOKMARK", 5), _FOURTH), "after revision 5", id="bookmark-ahead-of-events"
        ),
        pytest.param(_events(_SECOND, Event("BOOKMARK", 5)), "missed", id="bookmark-past-events"),
    ],
)  # fmt: skip
def test_a_history_with_one_fault_fails(damage: Damage, expected: str) -> None:
    history, log = right()
    damage(history, log)
    found = violations(history, {"t": log})
    assert any(expected in line for line in found), found


def test_writes_lost_in_a_failover_are_ignored() -> None:
    """Writes, reads, lists and events of lost revisions, and the hole that these leave in the log."""
    history, log = right()
    log.lost = [5, 100]
    log.revisions += [101]
    log.changes.append(Change(101, "ADDED", "c", 20))
    log.objects["c"] = (101, 20)
    history.writes.append(Write("t", "ADDED", "lost", 15, 10, 11, 201, 6))
    history.reads.append(Read("t", "lost", 10, 11, 15, 6))
    history.listings.append(Listing("t", 10, 11, 6, {"a": (4, 12), "lost": (6, 15)}))
    history.watches[0].events.append(Event("ADDED", 6, "lost", 15))
    history.writes.append(Write("t", "ADDED", "c", 20, 12, 13, 201, 101))
    assert violations(history, {"t": log}, lossless=False) == []
    # Not so with synchronous replication.
    [found] = violations(history, {"t": log})
    assert "acknowledged, and lost in a failover" in found
