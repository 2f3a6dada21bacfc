"""Third-party code is what tools/vendor_console.py has bundled, with licences; our own modules name nothing else."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from registry.console.app import STATIC
from tools.vendor_console import BUNDLES, LICENSES, MANIFEST, PINNED, VENDOR

OURS = sorted(file for file in STATIC.rglob("*.js") if VENDOR not in file.parents)


def test_each_file_is_the_one_of_the_manifest() -> None:
    manifest = json.loads((VENDOR / MANIFEST).read_text())
    files = {file.name for file in VENDOR.iterdir()} - {MANIFEST}
    assert files == set(manifest["sha256"]) == {*BUNDLES, LICENSES}
    found = {name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in files}
    assert found == manifest["sha256"]


def test_each_package_is_pinned_by_version_and_hash_and_has_its_licence() -> None:
    packages = json.loads((VENDOR / MANIFEST).read_text())["packages"]
    locked = json.loads((PINNED / "package-lock.json").read_text())["packages"]
    licences = (VENDOR / LICENSES).read_text()
    assert len(packages) > 10
    for name, version in packages.items():
        entry = locked[f"node_modules/{name}"]
        assert entry["version"] == version
        assert entry["integrity"].startswith("sha512-")
        assert f"{name} {version} ({entry['license']})" in licences
        assert entry["license"] in ("MIT", "ISC", "Apache-2.0")


def test_the_versions_are_exact_and_the_lock_names_no_address() -> None:
    wanted = json.loads((PINNED / "package.json").read_text())["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    assert "resolved" not in (PINNED / "package-lock.json").read_text()


@pytest.mark.parametrize("file", OURS, ids=lambda file: str(file.relative_to(STATIC)))
def test_a_module_imports_files_that_are_there_and_makes_no_markup_of_texts(file: object) -> None:
    path = STATIC / str(file)
    text = path.read_text()
    imported = re.findall(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']""", text)
    for target in imported:
        assert target.startswith("."), f"{target}: browsers find files only"
        assert (path.parent / target).is_file(), target
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySet|\beval\(|new Function|localStorage\b(?! is)"
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
    assert not re.search(forbidden, code)
    assert "https://" not in re.sub(r"^\s*(//|\*|/\*).*$", "", text, flags=re.MULTILINE)
