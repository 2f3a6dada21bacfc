"""`make sbom`: each package of the image's lock with its version, its license and what needs it. The wheel that it installs
serves, without the source tree."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from registry import __version__
from tests.folders import data_folder
from tests.running import running_server
from tests.supply.commands import run
from tests.supply.locks import NO_INDEX, RUNTIME, pins, wanted

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which `make sbom` has installed the lock of the image and the wheel."""
    if shutil.which("make") is None:
        pytest.skip("make is not on this machine")
    build = tmp_path_factory.mktemp("sbom") / "build"
    # The environment that runs these tests is not installed again, whatever the age of its stamp.
    done = run(
        "make", f"--assume-old={sys.prefix}/.developing", f"VENV={sys.prefix}", f"BUILD={build}", "sbom", cwd=ROOT
    )
    _require_index(done)
    assert done.returncode == 0, done.stdout + done.stderr
    return build


def _require_index(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode and any(words in done.stderr for words in NO_INDEX):
        pytest.skip("no package index here: " + done.stderr.strip().splitlines()[-2:][0])


@pytest.fixture(scope="module")
def sbom(build: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((build / "sbom.json").read_text())
    return made


def test_sbom(sbom: dict[str, Any]) -> None:
    assert sbom["bomFormat"] == "CycloneDX"
    root = sbom["metadata"]["component"]
    assert (root["name"], root["version"], root["type"]) == ("registry", __version__, "application")

    components = {component["purl"].partition("?")[0] for component in sbom["components"]}
    locked = pins("image")
    assert components <= {f"pkg:pypi/{name}@{version}" for name, version in locked.items()}
    # What the lock has for other platforms alone is not installed here.
    names = {purl.removeprefix("pkg:pypi/").partition("@")[0] for purl in components}
    assert names >= {requirement.name for requirement in wanted(RUNTIME)}
    # These declare none in the form that is read; their wheels have the text.
    assert {one["name"] for one in sbom["components"] if not one.get("licenses")} <= {"cel-python", "protobuf"}


def test_sbom_says_what_needs_what(sbom: dict[str, Any]) -> None:
    names = {component["bom-ref"]: canonicalize_name(component["name"]) for component in sbom["components"]}
    edges = {one["ref"]: one.get("dependsOn", []) for one in sbom["dependencies"]}
    direct = {names[ref] for ref in edges[sbom["metadata"]["component"]["bom-ref"]]}
    assert direct == {requirement.name for requirement in wanted(RUNTIME)}
    (starlette,) = [ref for ref, name in names.items() if name == "starlette"]
    assert "anyio" in {names[ref] for ref in edges[starlette]}


def test_an_installed_wheel_serves(build: Path, tmp_path: Path) -> None:
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", build / "image" / "bin" / "python"]
    # The lock of an installation is that of the image and the embedded PostgreSQL, which alone is installed here.
    assert pins("image").items() <= pins("install").items()
    locked: list[str | Path] = ["--require-hashes", "--only-binary", ":all:", "-r", ROOT / "requirements/install.txt"]
    done = run(*pip, "install", "--quiet", "--no-compile", *locked, cwd=tmp_path)
    _require_index(done)
    assert done.returncode == 0, done.stderr
    # What the wheel says that it needs is what the lock has.
    done = run(*pip, "check", cwd=tmp_path)
    assert done.returncode == 0, done.stdout

    command = build / "image" / "bin" / "registry"
    assert run(command, "version", cwd=tmp_path).stdout == f"registry {__version__}\n"
    assert "serve" in run(command, "--help", cwd=tmp_path).stdout
    # kubectl finds its plugins by these names.
    assert "history" in run(command.with_name("kubectl-registry"), "--help", cwd=tmp_path).stdout
    assert run(command.with_name("kubectl_complete-registry"), "hist", cwd=tmp_path).stdout == "history\n:4\n"
    outside = ("env", "--unset=PYTHONPATH", f"--chdir={tmp_path}", str(command))
    with data_folder() as folder, running_server(folder / "data", command=outside) as server:
        trust = ssl.create_default_context(cafile=str(server.authority))
        with urllib.request.urlopen(f"{server.url}/readyz", timeout=30, context=trust) as answer:
            assert answer.read() == b"ok"
