"""The recorded exchanges with kube-apiserver, replayed against a started server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.harness import KNOWN_FAILURES, not_built, replay_scenario, scenario_names, why_not_built
from tests.conformance.known import MODULE
from tests.conformance.results import LEVELS, problems, read, updated
from tests.running import RunningServer

BUILT = [name for name in scenario_names() if why_not_built(name) is None]
KNOWN = read(KNOWN_FAILURES)


@pytest.mark.conformance
@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT)
def test_answers_as_recorded(server: RunningServer, name: str, record_property: Callable[[str, Any], None]) -> None:
    result = replay_scenario(server, name)
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
