"""Clients in Java: the HTTP client of the JDK, and fabric8's.

REGISTRY_TEST_CLIENT_JAVA names the class path of fabric8's: kubernetes-client 6 or 7 with what it needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.kinds import PATIENCE_SECONDS, Kind
from tests.running import RunningServer

FOLDER = Path(__file__).with_name("java")
PROGRAM = FOLDER / "Objects.java"


def run(*command: str, **environment: str) -> list[str]:
    """Runs a program to its end, which must be a good one, and returns the lines that it printed."""
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=4 * PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def names_of(kind: Kind) -> list[str]:
    return [kind.group, kind.version, kind.namespace, kind.plural]


def test_the_client_of_the_jdk(server: RunningServer, kind: Kind, tmp_path: Path) -> None:
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        pytest.skip("no JDK is installed (java, javac)")
    run(javac, "-Xlint:all", "-Werror", "-d", str(tmp_path), str(FOLDER / "JdkClient.java"))
    arguments = [server.url, str(server.authority), str(server.data_dir / "admin-token")]
    printed = run(java, "-cp", str(tmp_path), "JdkClient", *arguments, *names_of(kind))
    assert printed == [
        "discovered true",
        "created 201 1",
        "listed 1",
        "patched 200 2",
        "watched MODIFIED a",
        "refused 409 Conflict",
        "refused 409",
        "refused 404 NotFound",
        "deleted 200",
        "watched DELETED a",
    ]


def test_objects_are_written_watched_and_read(server: RunningServer, kind: Kind) -> None:
    java, jars = shutil.which("java"), os.environ.get("REGISTRY_TEST_CLIENT_JAVA")
    if java is None or not jars:
        pytest.skip("java is not installed, or REGISTRY_TEST_CLIENT_JAVA names no class path of fabric8's client")
    printed = run(java, "-cp", jars, str(PROGRAM), *names_of(kind), KUBECONFIG=str(server.kubeconfig))
    assert printed == [
        "created 1",
        "watched ADDED a",
        "patched 2",
        "watched MODIFIED a",
        "listed 1",
        "refused 409",
        "watched DELETED a",
        "gone true",
    ]
