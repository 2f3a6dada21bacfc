"""kubeclient, the client of Ruby (Debian: ruby-kubeclient), whose methods are made of what discovery says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.kinds import Kind
from tests.running import RunningServer

SCRIPT = Path(__file__).with_name("ruby") / "objects.rb"


def test_objects_are_written_watched_and_read(server: RunningServer, kind: Kind) -> None:
    ruby = shutil.which("ruby")
    if (
        ruby is None
        or subprocess.run([ruby, "-e", "require 'kubeclient'"], capture_output=True, check=False).returncode
    ):
        pytest.skip("ruby and its kubeclient are not installed")
    done = subprocess.run(
        [ruby, str(SCRIPT), kind.group, kind.version, kind.namespace, kind.plural],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert steps[0][0] == "discovered"
    assert steps[1:] == [
        ["created", "a", 1],
        ["patched", 2],
        ["watched", "MODIFIED", "a"],
        ["listed", ["a"]],
        ["refused", 409, f'{kind.plural}.{kind.group} "a" already exists'],
        ["watched", "DELETED", "a"],
        ["gone", 404],
    ]
