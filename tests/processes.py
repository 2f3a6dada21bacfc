"""Running `registry` commands as child processes, and waiting for conditions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

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
    """Runs `registry <arguments>` to completion."""
    return subprocess.run(
        [sys.executable, "-m", "registry", *map(str, arguments)],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        cwd=ROOT,
    )


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
