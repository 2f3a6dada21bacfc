"""Replays recorded exchanges and compares the answers, case by case and level by level.

replay.py does the work. It is imported untyped and used as a library.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, Any

import httpx

from tests import fast_yaml
from tests.conformance.results import LEVELS, CaseNames, Result
from tests.emulating import AS_1_36
from tests.running import RunningServer

HERE = Path(__file__).parent
SCENARIOS = HERE / "scenarios"
KNOWN_FAILURES = HERE / "known_failures.txt"
# Of the server whose answers are compared: the recordings are from 1.36, their webhooks on the loopback. No answer depends on
# views of reports, and those of two thousand definitions take PostgreSQL a fifth of the processor time of a run.
ARGUMENTS = ("--no-sql-views", "--allow-egress-to", "127.0.0.0/8", *AS_1_36)
# In place of a result: its test has started, so the scenario is not replayed in the background.
TAKEN = "taken"
TIME_LIMIT = re.compile(r"^ +timeout: |timeoutSeconds=", re.MULTILINE)

replay: Any = importlib.import_module("tests.conformance.replay")


def scenario_names() -> list[str]:
    """Returns every recorded scenario, as 'rest/get.yaml'."""
    return [path.relative_to(SCENARIOS).as_posix() for path in replay.files([str(SCENARIOS)])]


@cache
def not_built() -> dict[str, str]:
    """Returns scenarios that are not replayed, with the reason, from not_built.txt; 'access/' names a whole area."""
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
    """Counts the conditions and watches with a time limit in a scenario: with any, it spends most of its time waiting."""
    return len(TIME_LIMIT.findall((SCENARIOS / name).read_text()))


class Replays:
    """The replays of one test run, of which every process of it has one, with a server of its own.

    Scenarios that mostly wait are replayed side by side, from the first request on; the others when they are requested.
    Each process knows the tests of the whole run, not which of them it will run: so the processes share `folder`, where
    whichever replays a scenario in the background leaves its result for the process that runs the test.
    """

    def __init__(self, server: RunningServer, pool: ThreadPoolExecutor, names: Iterable[str], folder: Path) -> None:
        self._server, self._folder = server, folder
        waiting = [name for name in names if time_limits(name)]
        self._waiting = frozenset(waiting)
        for name in sorted(waiting, key=time_limits, reverse=True):
            pool.submit(self._replay_ahead, name)

    def result(self, name: str) -> Result:
        """Returns the result of a scenario; a second call replays it again."""
        if name not in self._waiting:
            return replay_scenario(self._server, name)
        with self._locked(name, fcntl.LOCK_EX) as kept:
            text = kept.read()
            _overwrite(kept, TAKEN)
        return Result(json.loads(text)) if text not in ("", TAKEN) else replay_scenario(self._server, name)

    def _replay_ahead(self, name: str) -> None:
        with contextlib.suppress(BlockingIOError), self._locked(name, fcntl.LOCK_EX | fcntl.LOCK_NB) as kept:
            if not kept.read():
                _overwrite(kept, json.dumps(replay_scenario(self._server, name).differences))

    @contextlib.contextmanager
    def _locked(self, name: str, how: int) -> Iterator[IO[str]]:
        """The file of a scenario: empty, its result as JSON, or TAKEN. A process that dies loses its locks."""
        with open(self._folder / name.replace("/", "-"), "a+") as kept:
            fcntl.flock(kept, how)
            kept.seek(0)
            yield kept


def _overwrite(file: IO[str], text: str) -> None:
    file.truncate(0)
    file.write(text)
    file.flush()


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
    return fast_yaml.load(path.read_text())


def _compare(name: str, answered: list[dict[str, Any]]) -> Iterator[tuple[str, str, list[str]]]:
    """Yields (case, level, differences) of each compared answer."""
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
    """Returns a failure of every case: the set-up of the scenario failed."""
    names = CaseNames(name)
    steps = [step for step in replay.steps_of(scenario)[1] if step.get("case", step).get("expect") is not None]
    cases = [names.next(str(step.get("name") or "unnamed")) for step in steps if not step.get("unchecked")]
    return Result({f"{case} [{level}]": [why[:1500]] for case in cases for level in LEVELS})
