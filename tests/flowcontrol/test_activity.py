"""What tenants do: counted within the last minute, bounded, and never below nothing."""

from __future__ import annotations

import pytest

from registry.flowcontrol import activity as module
from registry.flowcontrol.activity import Activity, Figures


def test_requests_writes_and_watches_are_counted_apart() -> None:
    activity = Activity()
    for _ in range(3):
        activity.begin("acme", watch=False, write=False, now=0)
    activity.begin("acme", watch=False, write=True, now=0)
    activity.begin("acme", watch=True, write=False, now=0)
    assert activity.of("acme", now=0) == Figures(4, 1, 1)
    activity.end_watch("acme")
    activity.end_watch("acme")
    assert activity.of("acme", now=0) == Figures(4, 1, 0)
    assert activity.of("other", now=0) == Figures()


@pytest.mark.parametrize("now, requests", [(0, 60), (59, 60), (60, 60), (90, 30), (119, 1), (120, 0), (10_000, 0)])
def test_activity_older_than_a_minute_is_not_counted(now: float, requests: int) -> None:
    activity = Activity()
    for _ in range(60):
        activity.begin("acme", watch=False, write=False, now=0)
    assert activity.of("acme", now=now).requests == requests


def test_tenants_that_are_idle_are_forgotten_and_open_watches_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TENANTS", 3)
    activity = Activity()
    activity.begin("watches", watch=True, write=False, now=0)
    for number in range(10):
        activity.begin(f"t{number}", watch=False, write=False, now=0)
    assert activity.of("watches", now=0).watches == 1
    assert activity.of("t0", now=0) == Figures()
    assert activity.of("t9", now=0) == Figures(1, 0, 0)


def test_busy_tenants_are_those_of_the_last_minute_and_those_that_watch() -> None:
    activity = Activity()
    activity.begin("asked", watch=False, write=True, now=0)
    activity.begin("watches", watch=True, write=False, now=0)
    assert activity.busy(now=30) == {"asked": Figures(1, 1, 0), "watches": Figures(0, 0, 1)}
    assert activity.busy(now=130) == {"watches": Figures(0, 0, 1)}
    assert Figures(1, 1, 0).plus(Figures(2, 0, 3)) == Figures(3, 1, 3)
