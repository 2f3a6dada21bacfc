"""Extracts the shell commands of a page, and runs them as a reader would."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.running import RunningServer

ROOT = Path(__file__).resolve().parents[2]


def commands(text: str) -> str:
    """All blocks marked as `sh`, in their order. What is not meant to be run as it stands is indented instead."""
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def run(script: str, server: RunningServer, folder: Path, kubeconfig: Path | None = None) -> str:
    """The output of the commands, run in a folder; none may fail. The address of the pages stands for the server's.

    `kubectl wait` gives up after 30 seconds, in which a loaded machine has not started an operator: here it waits longer,
    unless the page says how long. It fails at once while a definition has no conditions, which a reader is too slow to see:
    here the conditions are waited for before.
    """
    script = script.replace("https://127.0.0.1:6443", server.url)
    script = re.sub(r"^kubectl wait ", "kubectl wait --timeout=120s ", script, flags=re.MULTILINE)
    script = re.sub(
        r"(?=kubectl wait .*--for=condition=Established (\S+))",
        r"until [[ -n $(kubectl get \1 -o jsonpath={.status.conditions}) ]]; do sleep 0.2; done; ",
        script,
    )
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
    # A session of its own, so that nothing of it stays: what runs in the background when a command before `kill` fails.
    with tempfile.TemporaryFile("w+") as printed:
        shell = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", script],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
        try:
            shell.wait(300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        printed.seek(0)
        output = printed.read()
    logs = [f"{log.name}:\n{log.read_text()}" for log in sorted(folder.glob("*.log"))] if shell.returncode else []
    assert shell.returncode == 0, "\n".join([output, *logs])
    return output
