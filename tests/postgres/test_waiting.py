"""Waiting for the end of a process takes no processor time."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from registry.postgres.processes import ends_within


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_nothing_wakes_the_thread_meanwhile(sleeper: subprocess.Popen[bytes]) -> None:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    assert not ends_within(sleeper, 1.0)
    assert time.monotonic() - began >= 1.0
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before <= 5


def test_an_end_is_noticed_and_reaped(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    assert ends_within(sleeper, 60.0)
    assert sleeper.returncode == -9
    assert ends_within(sleeper, 60.0)  # also when that is known already
