"""requirements/*.txt name everything that is installed by version and hash, and fit pyproject.toml."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from packaging.utils import canonicalize_name

from tests.supply.locks import EXTRAS, PROJECT, ROOT, RUNTIME, _lines, pins, wanted

LOCKS = ["build", "develop", "image", "install", "site", "tools"]


@pytest.mark.parametrize("name", LOCKS)
def test_each_line_is_one_version_with_hashes(name: str) -> None:
    lines = _lines(name)
    assert lines
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==\S+( ; [^-]+?)?( +--hash=sha256:[0-9a-f]{64})+", line), line[:200]


@pytest.mark.parametrize("name", LOCKS)
def test_no_address_is_in_a_lock(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert not re.search(r"://|^ *-[-if]|@ |file:", re.sub(r"--hash=\S+", "", text), re.MULTILINE)


@pytest.mark.parametrize(
    "name, requirements",
    [
        ("build", ["pip", *PROJECT["build-system"]["requires"]]),
        ("develop", [*RUNTIME, *EXTRAS["embedded"], *EXTRAS["dev"]]),
        ("image", RUNTIME),
        ("install", [*RUNTIME, *EXTRAS["embedded"]]),
        ("site", PROJECT["dependency-groups"]["site"]),
        ("tools", PROJECT["dependency-groups"]["tools"]),
    ],
    ids=LOCKS,
)
def test_a_lock_fits_the_project(name: str, requirements: list[str]) -> None:
    """A change of pyproject.toml without `make lock` fails here."""
    locked = pins(name)
    for requirement in wanted(requirements):
        assert canonicalize_name(requirement.name) in locked
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier


def test_the_image_and_the_tests_have_the_same_versions() -> None:
    develop = pins("develop")
    for name in ("image", "install"):
        assert pins(name).items() <= develop.items()


def _commands(file: str) -> str:
    """What the file runs, a command a line."""
    if file == "Dockerfile":
        text = (ROOT / file).read_text().replace("\\\n", " ")
        return re.sub(r" *(&&|\n) *", "\n", text)
    make = ["make", "--dry-run", "--always-make", "install", "develop", "dist", "lock", "sbom"]
    # Started from `make test`, this would be a part of that run.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(make, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("file", ["Dockerfile", "Makefile"])
def test_nothing_is_installed_that_is_not_locked(file: str) -> None:
    """Each command installs a lock by its hashes, or the project itself without what it depends on."""
    installs = [line for line in _commands(file).splitlines() if re.search(r"\bpip\b.* (install|wheel)\b", line)]
    assert len(installs) >= 3
    for one in installs:
        locked = "--require-hashes" in one and "--only-binary :all:" in one and "-r requirements/" in one
        assert locked or ("--no-deps" in one and ("--no-build-isolation" in one or one.endswith(".whl"))), one
