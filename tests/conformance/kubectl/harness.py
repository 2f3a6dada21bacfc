"""Replays recorded kubectl sessions. kubectl_replay.py does the work and is imported untyped."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

from tests.conformance.harness import load_yaml
from tests.conformance.results import LEVELS, CaseNames, Result
from tests.running import RunningServer

HERE = Path(__file__).parent
TRANSCRIPTS = HERE / "transcripts"
KNOWN_FAILURES = HERE / "known_failures.txt"

replay: Any = importlib.import_module("tests.conformance.kubectl.kubectl_replay")


def kubectl() -> str | None:
    """The kubectl of this machine, where there is one."""
    found = shutil.which("kubectl")
    return str(Path(found).resolve()) if found else None


def transcript_names() -> list[str]:
    return sorted(path.name for path in TRANSCRIPTS.glob("*.yaml"))


def replay_transcript(server: RunningServer, name: str) -> Result:
    """Runs one transcript's commands and compares what each printed at each level."""
    transcript = load_yaml(TRANSCRIPTS / name)
    names = CaseNames(name)
    try:
        answered = replay.run_transcript(kubectl(), replay.load_kubeconfig(server.kubeconfig), transcript)
    except Exception as problem:
        compared = [command for command in transcript["commands"] if not command.get("quiet")]
        cases = [names.next(command["run"]) for command in compared]
        return Result({f"{case} [{level}]": [f"{problem}"[:1500]] for case in cases for level in LEVELS})
    found = Result()
    for result in answered:
        wanted = result["command"].get("expect")
        if wanted is not None:
            case = names.next(result["command"]["run"])
            for level in LEVELS:
                found.differences[f"{case} [{level}]"] = list(replay.differences(wanted, result["got"], level))
    return found
