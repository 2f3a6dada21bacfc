"""What the README tells people to type works as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import RunningServer, data_folder, running_server

ROOT = Path(__file__).resolve().parents[2]


def _part(name: str) -> str:
    """The shell commands between `<!-- name: begin -->` and `<!-- name: end -->`."""
    text = (ROOT / "README.md").read_text()
    part = text.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]
    return "\n".join(re.findall(r"```sh\n(.*?)```", part, re.DOTALL))


def _run(commands: str, server: RunningServer) -> str:
    """The output of the commands, which must not fail."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(server.data_dir / "kubeconfig"),
                   "REGISTRY_DATA_DIR": str(server.data_dir), "REGISTRY_PORT": server.url.rpartition(":")[2],
                   "HOME": str(server.data_dir)}
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", commands], env=environment, text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
def test_the_tour_works_as_pasted() -> None:
    with data_folder() as folder, running_server(folder / "data") as server:
        shown = _run(_part("tour"), server)
        assert "backup.demo.example.com/nightly created" in shown
        assert "spec.keep in body should be greater than or equal to 1" in shown
        assert "a paused backup must keep more than one" in shown
        assert re.search(r"nightly +0 3 \* \* \* +14 +Ready", shown)
        if shutil.which("psql") is not None:
            rows = _run(_part("sql"), server)
            assert re.search(r"default +\| default +\| nightly +\| 0 3 \* \* \*", rows)
            assert re.search(r"update +\| admin +\| patch +\| +14", rows)
        told = _run(f"cd {folder}\n" + _part("tenant"), server)
        assert "namespace/shop created" in told
        assert re.search(r"^acme ", told, re.MULTILINE)


def test_every_linked_page_is_there() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"
