"""The wheel and the sdist are complete. test_sbom.py runs an installed wheel."""

from __future__ import annotations

import email
import email.message
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from registry import __version__
from tests.supply.commands import run

ROOT = Path(__file__).parents[2]
SOURCES = ("registry", "migrations")
pytestmark = pytest.mark.slow


def _built(kind: str, folder: Path) -> Path:
    pattern = {"wheel": "*.whl", "sdist": "*.tar.gz"}[kind]
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that is built from it. It is built from a copy: setuptools writes."""
    pytest.importorskip("build", reason="build is not installed: make develop")
    folder = tmp_path_factory.mktemp("package")
    source = folder / "source"
    leave_out = shutil.ignore_patterns("__pycache__")
    for name in (*SOURCES, "docs", "requirements"):
        shutil.copytree(ROOT / name, source / name, ignore=leave_out)
    for name in ("pyproject.toml", "README.md", "SECURITY.md", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", source, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


def _tracked() -> set[str]:
    """Every file of the packages: 'registry/py.typed'."""
    files = (path for name in SOURCES for path in (ROOT / name).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}


def test_the_wheel_has_every_file_of_the_packages_and_no_other(built: Path) -> None:
    with zipfile.ZipFile(_built("wheel", built)) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == _tracked()


def test_the_sdist_has_what_a_wheel_is_built_from(built: Path) -> None:
    with tarfile.open(_built("sdist", built)) as sdist:
        names = {member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()}
    assert names >= _tracked()
    assert names >= {"pyproject.toml", "README.md", "SECURITY.md", "requirements/install.txt", "docs/sql.md"}
    assert not [name for name in names if name.startswith(("tests/", "secrets/", "build/", "."))]


def test_the_wheel_says_what_it_is(built: Path) -> None:
    with zipfile.ZipFile(_built("wheel", built)) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata: email.message.Message = email.message_from_bytes(wheel.read(name))
    assert metadata["Name"] == "registry"
    assert metadata["Version"] == __version__
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    # A name that another project has on the public index: an upload by mistake is refused there.
    assert "Private :: Do Not Upload" in metadata.get_all("Classifier", [])
