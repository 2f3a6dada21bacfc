"""The examples work exactly as written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import RunningServer

EXAMPLES = Path(__file__).parents[2] / "examples"


def output(command: list[str], server: RunningServer) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_walk_of_the_python_client(server: RunningServer) -> None:
    pytest.importorskip("kubernetes", reason="the kubernetes client is not installed")
    said = output([sys.executable, str(EXAMPLES / "python-client" / "walk.py")], server)
    assert said.splitlines() == [
        "crontabs.jobs.example.com is established",
        "created nightly with 1 replica by default",
        "refused spec.schedule",
        "listed ['nightly']",
        "saw MODIFIED 3 None",
        "saw MODIFIED 3 Ready",
        "conflict 409",
        "applied by schedule-keeper",
        'Apply failed with 1 conflict: conflict with "schedule-keeper": .spec.schedule',
        "deleted nightly",
    ]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_walk_with_curl(server: RunningServer) -> None:
    said = output(["bash", str(EXAMPLES / "curl" / "walk.sh"), str(server.data_dir), server.url], server)
    assert "spec.replicas in body should be less than or equal to 10" in said
    assert re.findall(r'"type":"(\w+)"', said.partition("# Watch")[2]) == ["ADDED", "DELETED"]


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_the_files_of_the_crontab(server: RunningServer) -> None:
    """By server-side apply, so that it does not matter whether another walk has been here before."""
    kubectl = ["kubectl", "apply", "--server-side", "--force-conflicts", "-f"]
    output([*kubectl, str(EXAMPLES / "crontab" / "definition.yaml")], server)
    output(["kubectl", "wait", "--for=condition=Established", "crd/crontabs.jobs.example.com"], server)
    output([*kubectl, str(EXAMPLES / "crontab" / "objects.yaml")], server)
    listed = output(["kubectl", "get", "crontabs", "--no-headers"], server).splitlines()
    assert [" ".join(line.split()[:7]) for line in listed] == ["backup 0 3 * * * 1", "report */15 8-18 * * 1-5 2"]
    output(["kubectl", "delete", "crontabs", "--all"], server)
