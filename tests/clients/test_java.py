"""fabric8's client for Java. REGISTRY_TEST_CLIENT_JAVA names its class path: kubernetes-client 6 or 7 with what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.kinds import PATIENCE_SECONDS, Kind
from tests.running import RunningServer

PROGRAM = Path(__file__).with_name("java") / "Objects.java"


def test_objects_are_written_watched_and_read(server: RunningServer, kind: Kind) -> None:
    java, jars = shutil.which("java"), os.environ.get("REGISTRY_TEST_CLIENT_JAVA")
    if java is None or not jars:
        pytest.skip("java is not installed, or REGISTRY_TEST_CLIENT_JAVA names no class path of fabric8's client")
    done = subprocess.run(
        [java, "-cp", jars, str(PROGRAM), kind.group, kind.version, kind.namespace, kind.plural],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "created 1",
        "watched ADDED a",
        "patched 2",
        "watched MODIFIED a",
        "listed 1",
        "refused 409",
        "watched DELETED a",
        "gone true",
    ]
