"""Runs a command as a user would: without what this test run has set for itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

# Its settings, its own make, where its sources are, and its environment of Python.
_HIDDEN = ("REGISTRY_", "MAKE", "PYTHONPATH", "VIRTUAL_ENV")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
    return subprocess.run([str(part) for part in command], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=900, check=False)  # fmt: skip
