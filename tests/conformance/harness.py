"""Replays recorded exchanges and says, case by case and level by level, whether the server answers alike.

replay.py does the work; it is loaded untyped, its functions are used as a library.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.conformance.results import LEVELS, CaseNames, Result
from tests.running import RunningServer

HERE = Path(__file__).parent
SCENARIOS = HERE / "scenarios"
KNOWN_FAILURES = HERE / "known_failures.txt"
TIME_LIMIT = re.compile(r"^ +timeout: |timeoutSeconds=", re.MULTILINE)

replay: Any = importlib.import_module("tests.conformance.replay")


def scenario_names() -> list[str]:
    """Every recorded scenario, as 'rest/get.yaml'."""
    return [path.relative_to(SCENARIOS).as_posix() for path in replay.files([str(SCENARIOS)])]


@cache
def not_built() -> dict[str, str]:
    """Scenarios outside the regular run, with the reason, from not_built.txt: 'access/' is a whole area."""
    entries = {}
    for line in (HERE / "not_built.txt").read_text().splitlines():
        name, _, reason = line.partition("  ")
        if name and not name.startswith("#"):
            entries[name.strip()] = reason.strip()
    return entries


def why_not_built(name: str) -> str | None:
    return not_built().get(name) or not_built().get(name.partition("/")[0] + "/")


@cache
def time_limits(name: str) -> int:
    """How many conditions and watches with time limits of their own a scenario has: such a scenario mostly waits."""
    return len(TIME_LIMIT.findall((SCENARIOS / name).read_text()))


class Replays:
    """The replays of one test process.

    Scenarios that mostly wait are replayed side by side, from the first request on; the others when they are requested.
    """

    def __init__(self, server: RunningServer, pool: ThreadPoolExecutor, names: Iterable[str]) -> None:
        waiting = [name for name in names if time_limits(name)]
        self._replay = partial(replay_scenario, server)
        longest_first = sorted(waiting, key=time_limits, reverse=True)
        self._replaying = {name: pool.submit(self._replay, name) for name in longest_first}

    def result(self, name: str) -> Result:
        """The result of a scenario; when asked for it again, of another replay."""
        replaying = self._replaying.pop(name, None)
        return replaying.result() if replaying is not None else self._replay(name)


def replay_scenario(server: RunningServer, name: str) -> Result:
    """Replays one scenario and compares each case at each level."""
    scenario = load_yaml(SCENARIOS / name)
    headers = {"Authorization": f"Bearer {server.token}"}
    try:
        with httpx.Client(base_url=server.url, headers=headers, verify=False, timeout=120) as client:
            answered = replay.run_scenario(client, SCENARIOS / name, scenario)
    except Exception as problem:
        return _all_failed(name, scenario, f"{type(problem).__name__}: {problem}")
    return Result({f"{case} [{level}]": found for case, level, found in _compare(name, answered)})


def load_yaml(path: Path) -> Any:
    return yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _compare(name: str, answered: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[str]]]:
    """(case, level, differences) of each compared answer."""
    names = CaseNames(name)
    for result in answered:
        wanted = result["step"].get("case", result["step"]).get("expect")
        if result["step"].get("unchecked") or wanted is None:
            continue
        case = names.next(str(result["name"] or "unnamed"))
        for level in LEVELS:
            yield case, level, _differences(wanted, result["got"], level)


def _differences(wanted: dict[str, Any], got: dict[str, Any], level: str) -> list[str]:
    if "error" in got:
        return [str(got["error"])]
    if level == "semantic":
        wanted, got = (json.loads(json.dumps(replay.meaning(each))) for each in (wanted, got))
    return list(replay.differences(wanted, got))


def _all_failed(name: str, scenario: dict[str, Any], why: str) -> Result:
    """The set-up failed: nothing of the scenario could be asked."""
    names = CaseNames(name)
    steps = [step for step in replay.steps_of(scenario)[1] if step.get("case", step).get("expect") is not None]
    cases = [names.next(str(step.get("name") or "unnamed")) for step in steps if not step.get("unchecked")]
    return Result({f"{case} [{level}]": [why[:1500]] for case in cases for level in LEVELS})
