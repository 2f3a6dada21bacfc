"""The code of earlier releases, extracted from the history of this repository."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

import pytest

from tests.processes import ROOT

# What users have: 0.1.0 (CHANGELOG.md), the release with migration 0013.
PREVIOUS: Final = "22c5a41"
PREVIOUS_REVISION: Final = "0013"


def command_of(commit: str, folder: Path) -> tuple[str, ...]:
    """What to run in place of `registry`: the code of the commit, with the libraries of this environment."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, "registry", "migrations"], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no git")
    if done.returncode:
        pytest.skip(f"the history of this checkout does not have the previous release ({commit}): make a full clone")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    # -P: not the code of the folder in which tests run.
    return ("env", f"PYTHONPATH={folder}", sys.executable, "-P", "-m", "registry")
