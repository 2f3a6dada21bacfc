"""`make sbom`: each package of the image's lock with its version, its license and what needs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from registry import __version__
from tests.supply.locks import NO_INDEX, RUNTIME, pins, wanted

ROOT = Path(__file__).parents[2]
# This run's own make, and where its sources are.
HIDDEN = ("MAKE", "PYTHONPATH")


@pytest.fixture(scope="module")
def sbom(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if shutil.which("make") is None:
        pytest.skip("make is not on this machine")
    build = tmp_path_factory.mktemp("sbom") / "build"
    # The environment that runs these tests is not installed again, whatever the age of its stamp.
    command = ["make", f"--assume-old={sys.prefix}/.developing", f"VENV={sys.prefix}", f"BUILD={build}", "sbom"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode and any(words in done.stderr for words in NO_INDEX):
        pytest.skip("no package index here: " + done.stderr.strip().splitlines()[-2])
    assert done.returncode == 0, done.stdout + done.stderr
    made: dict[str, Any] = json.loads((build / "sbom.json").read_text())
    return made


@pytest.mark.slow
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


@pytest.mark.slow
def test_sbom_says_what_needs_what(sbom: dict[str, Any]) -> None:
    names = {component["bom-ref"]: canonicalize_name(component["name"]) for component in sbom["components"]}
    edges = {one["ref"]: one.get("dependsOn", []) for one in sbom["dependencies"]}
    direct = {names[ref] for ref in edges[sbom["metadata"]["component"]["bom-ref"]]}
    assert direct == {requirement.name for requirement in wanted(RUNTIME)}
    (starlette,) = [ref for ref, name in names.items() if name == "starlette"]
    assert "anyio" in {names[ref] for ref in edges[starlette]}
