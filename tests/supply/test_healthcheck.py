"""The image's health check on a running and on a stopped server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.folders import data_folder
from tests.running import running_server

SCRIPT = Path(__file__).parents[2] / "image" / "healthcheck.py"


def _check(data_dir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT], env={"REGISTRY_DATA_DIR": str(data_dir)}, capture_output=True,
                          text=True, check=False)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--plain-http",)], ids=["tls", "plain"])
def test_healthy_as_long_as_the_server_runs(arguments: tuple[str, ...]) -> None:
    with data_folder() as folder:
        with running_server(folder / "data", *arguments):
            done = _check(folder / "data")
            assert (done.returncode, done.stderr) == (0, "")
        done = _check(folder / "data")
        assert done.returncode == 1
        assert done.stderr.startswith("not ready: ")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("text", [None, "", "[]", "clusters: []", "clusters: [{cluster: {}}]", "a: b: c", "a"])
def test_not_healthy_before_a_first_start(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "kubeconfig").write_text(text)
    done = _check(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("not ready: ")
