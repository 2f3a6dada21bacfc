"""One budget for each request, with parts that have limits of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from time import thread_time

import pytest

from registry.budget import Budget, BudgetExceeded, MatchingExceeded, check_time, spend


def busy(seconds: float) -> None:
    until = thread_time() + seconds
    while thread_time() < until:
        pass


def test_units() -> None:
    with Budget(100) as budget:
        spend(60)
        spend(40)
        assert budget.left == 0
        for _ in range(2):
            with pytest.raises(BudgetExceeded):
                spend(1)
    spend(10**9)  # nothing is current


def test_a_part_has_units_of_its_own() -> None:
    with Budget(100) as outer:
        with Budget(1000):
            spend(500)
        assert outer.left == 100
        with pytest.raises(BudgetExceeded):
            spend(101)


def for_ever() -> None:
    while True:
        spend(1)
        busy(0.000_01)


def in_parts() -> None:
    while True:
        check_time()
        with Budget(10**9, 0.02, is_measured=True):
            busy(0.01)


def in_nested_parts() -> None:
    while True:
        check_time()
        with Budget(10**9, 1.0, is_measured=True), Budget(10**9, 1.0, is_measured=True):
            busy(0.01)


@pytest.mark.parametrize("work", [for_ever, in_parts, in_nested_parts])
def test_time(work: Callable[[], None]) -> None:
    began = thread_time()
    with pytest.raises(BudgetExceeded), Budget(10**9, 0.1):
        work()
    assert 0.09 < thread_time() - began < 1


def test_parts_of_a_request_share_its_time_in_any_thread() -> None:
    def part() -> None:
        with Budget(10**9, 1.0, is_measured=True):
            busy(0.05)

    def request() -> None:
        budget = Budget(seconds=0.12)
        budget.begin()
        for _ in range(3):
            thread = threading.Thread(target=copy_context().run, args=(part,))
            thread.start()
            thread.join()
        assert -0.15 < budget.seconds <= 0
        with pytest.raises(BudgetExceeded):
            check_time()
        with pytest.raises(BudgetExceeded), Budget(10**9, 1.0):
            spend(10_000)

    copy_context().run(request)


def test_time_of_one_part_is_counted_once() -> None:
    with Budget(seconds=10.0) as outer:
        with Budget(seconds=5.0, is_measured=True), Budget(seconds=5.0, is_measured=True):
            busy(0.3)
        assert 9.45 < outer.seconds < 9.71


def test_matching_has_its_part() -> None:
    budget = Budget()
    budget.spend_on_matching(90_000_000)
    with pytest.raises(MatchingExceeded):
        budget.spend_on_matching(20_000_000)
    with pytest.raises(MatchingExceeded):
        budget.spend_on_matching(0)
    budget.spend(1)
