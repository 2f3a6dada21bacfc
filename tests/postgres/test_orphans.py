"""Orphaned processes are ended before a start; unrelated ones are left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from registry.postgres import processes

# `_serves` knows a server by its working folder on Linux, by its command line elsewhere.
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stands in for a server by its working folder")


@contextmanager
def process_in(folder: Path, script: str) -> Iterator[subprocess.Popen[str]]:
    """A shell that works in `folder`; it has begun when this enters."""
    # A shell cannot bring back a signal that was ignored when it began, as in a test run in the background.
    shell = (
        "import os, signal, sys; [signal.signal(s, signal.SIG_DFL) for s in (signal.SIGINT, signal.SIGQUIT)];"
        " os.execv('/bin/sh', ['sh', '-c', sys.argv[1]])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", shell, f"{script}; echo begun; read -r _"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_nothing_to_clear(tmp_path: Path) -> None:
    processes.end_orphans(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "\n5432\n", "rubbish\n", "-1\n", "0\n"])
def test_a_broken_file_is_removed(tmp_path: Path, content: str) -> None:
    (tmp_path / "postmaster.pid").write_text(content)
    processes.end_orphans(tmp_path)
    assert not (tmp_path / "postmaster.pid").exists()


@pytest.mark.parametrize("pid", ["1", "4194999"], ids=["init", "nobody"])
def test_a_stale_file_is_left_to_postgresql(tmp_path: Path, pid: str) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{pid}\n{tmp_path}\n")
    processes.end_orphans(tmp_path)
    assert (tmp_path / "postmaster.pid").exists()


def test_a_process_that_reuses_the_pid_of_a_dead_server_is_not_ended(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with process_in(tmp_path / "elsewhere", ":") as process:
        (tmp_path / "postmaster.pid").write_text(f"{process.pid}\n")
        processes.end_orphans(tmp_path)
        assert process.poll() is None


@pytest.mark.parametrize(
    "script, ends_by",
    [(":", signal.SIGINT), ("trap '' INT", signal.SIGQUIT), ("trap '' INT QUIT", signal.SIGKILL)],
    ids=["in order", "at once", "by force"],
)
def test_an_orphan_is_ended(
    tmp_path: Path, script: str, ends_by: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Short for what it ignores, patient for what ends it.
    monkeypatch.setattr(
        processes, "STEPS", tuple((number, 30.0 if number == ends_by else 0.05) for number, _ in processes.STEPS)
    )
    with process_in(tmp_path, script) as process:
        (tmp_path / "postmaster.pid").write_text(f"{process.pid}\n")
        processes.end_orphans(tmp_path)
        assert process.wait(60) == -ends_by
