"""A benchmark ends what it has started, however it is ended itself."""

from __future__ import annotations

import signal
import subprocess
import sys

import psutil
import pytest

from tests.processes import ROOT, environment, wait_until

pytestmark = pytest.mark.slow

# As benchmarks use it; what is printed is the server's process and its folder.
BENCHMARK = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from benchmarks import server
with server.folder() as data, server.running(data, 1, None) as running:
    print(running.process.pid, data, flush=True)
    running.process.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_with_its_benchmark(number: signal.Signals) -> None:
    benchmark = subprocess.Popen(
        [sys.executable, "-c", BENCHMARK], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with benchmark:
        assert benchmark.stdout is not None
        pid, folder = benchmark.stdout.readline().decode().split()
        started = [psutil.Process(int(pid)), *psutil.Process(int(pid)).children(recursive=True)]
        try:
            assert len(started) > 1, "PostgreSQL is among them"
            benchmark.send_signal(number)
            assert benchmark.wait(120) == (143 if number == signal.SIGTERM else -signal.SIGINT)
            wait_until(lambda: not any(process.is_running() for process in started), "all have ended")
            assert not (ROOT / folder).exists()
        finally:
            benchmark.kill()
            for process in started:
                if process.is_running():
                    process.kill()
