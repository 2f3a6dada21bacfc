"""docker-compose.yml runs, with podman and base images made from Debian's packages (tests/compose/run)."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.docs.pages import ROOT


@pytest.mark.slow
@pytest.mark.skipif(
    "REGISTRY_TEST_COMPOSE" not in os.environ, reason="REGISTRY_TEST_COMPOSE=1 runs it: some five minutes, as root"
)
def test_the_stack_works() -> None:
    done = subprocess.run([ROOT / "tests/compose/run"], capture_output=True, text=True, check=False, timeout=1_800)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the stack works" in done.stdout
