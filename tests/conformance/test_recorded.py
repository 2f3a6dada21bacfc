"""Recorded exchanges with kube-apiserver, replayed on a started server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.harness import KNOWN_FAILURES, Replays, not_built, scenario_names, time_limits, why_not_built
from tests.conformance.known import MODULE
from tests.conformance.results import LEVELS, problems, read, updated
from tests.running import RunningServer

# Those that mostly wait come last: they are replayed in the background of the others.
BUILT = sorted(
    (name for name in scenario_names() if why_not_built(name) is None), key=lambda name: time_limits(name) > 0
)
KNOWN = read(KNOWN_FAILURES)
# How many of them are replayed at a time.
WAITING_TOGETHER = 8


@pytest.fixture(scope="module")
def replays(server: RunningServer, request: pytest.FixtureRequest, run_folder: Path) -> Iterator[Replays]:
    folder = run_folder / "replays"
    folder.mkdir(exist_ok=True)
    tests = [item for item in request.session.items if isinstance(item, pytest.Function)]
    selected = [str(test.callspec.params["name"]) for test in tests if "replays" in test.fixturenames]
    with ThreadPoolExecutor(WAITING_TOGETHER) as pool:
        yield Replays(server, pool, selected, folder)
        pool.shutdown(cancel_futures=True)


@pytest.mark.conformance
@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_answers_as_recorded(replays: Replays, name: str, record_property: Callable[[str, Any], None]) -> None:
    result = replays.result(name)
    for level in LEVELS:
        record_property("replayed", (name.partition("/")[0], level, *result.count(level)))
    found = problems(result, {case for case in KNOWN if case.startswith(f"{name}::")}, MODULE)
    assert not found, "\n".join([f"{len(found)} of {len(result.differences)} comparisons of {name}", *found])


def test_lists_name_what_exists() -> None:
    names = scenario_names()
    areas = {name.partition("/")[0] + "/" for name in names}
    unknown = [name for name in not_built() if name not in names and name not in areas]
    unknown += [case for case in KNOWN if case.partition("::")[0] not in BUILT]
    assert unknown == []
    assert [name for name, reason in not_built().items() if not reason] == [], "each needs its reason"


@pytest.mark.parametrize(
    "known, compared, failed, allow_new, expected",
    [
        pytest.param({"a::1"}, {"a::1"}, {"a::1"}, False, {"a::1"}, id="still fails: stays"),
        pytest.param({"a::1"}, {"a::1"}, set(), False, set(), id="passes: goes"),
        pytest.param({"a::1"}, {"a::2"}, set(), False, set(), id="is gone from its file: goes"),
        pytest.param({"b::1"}, {"a::1"}, set(), False, {"b::1"}, id="not replayed: stays"),
        pytest.param(set(), {"a::1"}, {"a::1"}, False, set(), id="fails newly: not put on"),
        pytest.param(set(), {"a::1"}, {"a::1"}, True, {"a::1"}, id="fails newly, allowed: put on"),
    ],
)
def test_the_list_of_known_failures_shrinks(
    known: set[str], compared: set[str], failed: set[str], allow_new: bool, expected: set[str]
) -> None:
    assert updated(frozenset(known), compared, failed, allow_new=allow_new) == expected
