"""client-go, the client of controllers: typed in protobuf, dynamic, informers, server-side apply, leader election.

The program tests/clients/go is built with Go and the modules that it names; REGISTRY_TEST_CLIENT_GO names one that has
been built already.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.kinds import PATIENCE_SECONDS, Kind
from tests.folders import data_folder
from tests.running import RunningServer

SOURCE = Path(__file__).with_name("go")
# Downloads client-go and compiles it.
BUILD_SECONDS = 900


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    given = os.environ.get("REGISTRY_TEST_CLIENT_GO")
    if given:
        yield Path(given)
        return
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed, and REGISTRY_TEST_CLIENT_GO names no program")
    with data_folder() as folder:
        shutil.copytree(SOURCE, folder / "source")
        for command in ([go, "mod", "tidy"], [go, "build", "-o", str(folder / "client"), "."]):
            done = subprocess.run(
                command, cwd=folder / "source", capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
            )
            if done.returncode:
                pytest.skip(f"go cannot build the client: {done.stderr.strip().splitlines()[-1:]}")
        yield folder / "client"


def test_a_controller_with_client_go(server: RunningServer, kind: Kind, program: Path) -> None:
    done = subprocess.run(
        [str(program), kind.group, kind.version, kind.namespace, kind.plural],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        ["config map", {"color": "blue"}],
        ["stale update", True],
        ["synced", True],
        ["added", 1],
        ["conflict", True],
        ["updated", 2],
        ["invalid", True],
        ["deleted", 2],
        ["not found", True],
        ["leading"],
        ["released"],
    ]
