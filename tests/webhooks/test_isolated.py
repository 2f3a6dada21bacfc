"""Egress from end to end: real connections to every kind of address, where they can reach nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.webhooks.isolated import PUBLIC

_TIMEOUT_SECONDS = 120


def unshare() -> list[str]:
    """The command that runs another one without a network. Skips where there is none."""
    for command in (["unshare", "--net"], ["unshare", "--net", "--map-root-user"]):
        if shutil.which("unshare") is None or shutil.which("ip") is None:
            pytest.skip("unshare and ip (util-linux, iproute2) are not installed")
        tried = subprocess.run([*command, "ip", "link", "set", "lo", "up"], capture_output=True, timeout=30)
        if tried.returncode == 0:
            return command
    pytest.skip(f"no network namespace can be made here: {tried.stderr.decode(errors='replace').strip()}")


@pytest.mark.slow
def test_only_public_addresses_are_connected_to(tmp_path: Path) -> None:
    command = [*unshare(), sys.executable, "-m", "tests.webhooks.isolated", str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
        cwd=Path(__file__).parents[2],
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    shown = [f"[{address}]" if ":" in address else address for address in PUBLIC]
    public = {*PUBLIC, *(f"https://{address}" for address in shown)}
    assert {name for name, result in found.items() if result == "answered"} == public
    assert found.pop("connections") == len(public)
    refused = {name: result for name, result in found.items() if name not in public}
    assert all(
        "is not one that webhooks may be called at" in text or "cannot be called: " in text for text in refused.values()
    ), refused
