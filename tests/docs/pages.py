"""Extracts the shell commands of a page, and runs them as a reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.running import RunningServer

ROOT = Path(__file__).resolve().parents[2]


def commands(text: str) -> str:
    """All blocks marked as `sh`, in their order. What is not meant to be run as it stands is indented instead."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def run(script: str, server: RunningServer, folder: Path, kubeconfig: Path | None = None) -> str:
    """The output of the commands, run in a folder; none may fail. The address of the pages stands for the server's."""
    script = script.replace("https://127.0.0.1:6443", server.url)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REGISTRY_")}
    environment |= {
        "PATH": path,
        "KUBECONFIG": str(kubeconfig or server.kubeconfig),
        "HOME": str(server.data_dir),
        "REGISTRY_DATA_DIR": str(server.data_dir),
        # A kubectl lives for a moment: collecting its garbage takes a fifth of its processor time.
        "GOGC": "off",
    }
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        env=environment,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
