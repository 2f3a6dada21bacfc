"""Packages of clients that are on no lock of ours: installed once in a checkout, into pytest's cache.

`pytest --cache-clear` installs them again, and so does another version of what installs them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

INSTALL_SECONDS = 300


def installed(cache: pytest.Cache, name: str, command: Sequence[str], *, runtime: str) -> Path:
    """Returns the folder in which a command has installed packages; skips the test where it cannot.

    `runtime` says with what they run: another version of it gets a folder of its own.
    """
    digest = hashlib.sha256("\0".join([runtime, *command]).encode()).hexdigest()
    folder = cache.mkdir("clients") / f"{name}-{digest[:12]}"
    if folder.exists():
        return folder
    # Whole or not at all, although this run may be killed, and another may install the same meanwhile.
    making = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder.parent))
    try:
        done = subprocess.run(
            command, cwd=making, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_SECONDS,
            check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"cannot install {name}: {done.stderr.strip() or 'no reason given'}")
        try:
            os.replace(making, folder)
        except OSError:
            if not folder.exists():  # nobody else has made it meanwhile
                raise
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} was not installed within {INSTALL_SECONDS} s")
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder
