"""Running `registry` commands as child processes, and waiting for conditions."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.forked import ForkedProcess

ROOT = Path(__file__).resolve().parents[1]


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def environment(**more: str) -> dict[str, str]:
    """Returns the current environment without REGISTRY_* variables, plus those given."""
    return {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")} | more


def registry(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `registry <arguments>` to completion, forked: some tests run it dozens of times."""
    words = list(map(str, arguments))
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder) / "out", Path(folder) / "errors"
        process = ForkedProcess(
            "registry", words, environment=environment(**variables), out=out, log=errors, folder=ROOT
        )
        try:
            code = process.wait(180)
        finally:
            process.kill()
        return subprocess.CompletedProcess(words, code, out.read_text(), errors.read_text())


def refusal(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    """Asserts that a command failed with one line of its own after the log, and returns this line."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    ours = [line for line in lines if line.startswith("registry")]
    assert len(ours) == 1
    assert lines[-1] == ours[0]
    return ours[0]


def alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def children(pid: int, word: str) -> list[int]:
    """Returns the descendants of `pid` that have `word` as their program name or as an argument, sorted by pid."""
    found = []
    for one in psutil.Process(pid).children(recursive=True):
        try:
            command = one.cmdline()
        except psutil.NoSuchProcess:
            continue
        if word in [Path(part).name for part in command]:
            found.append(one.pid)
    return sorted(found)
