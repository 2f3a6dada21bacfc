"""Images have exact versions and digests; tools/pin_images.py writes those that a registry of images has returned."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.pin_images import IMAGE, Unresolved, pinned

ROOT = Path(__file__).parents[2]
DIGEST = "sha256:" + "0123456789abcdef" * 4
OLD = "sha256:" + "f" * 64


def _images(file: str) -> list[str]:
    """What the file names that is not built from it."""
    text = (ROOT / file).read_text()
    names = re.findall(r"^\s*(?:ARG \w+_IMAGE=|FROM |image: )(\S+)", text, re.MULTILINE)
    return [name for name in names if name != "registry" and not name.startswith("$")]


@pytest.mark.parametrize("file", ["Dockerfile", "docker-compose.yml"])
def test_images_have_exact_versions_and_digests(file: str) -> None:
    images = _images(file)
    assert images
    for image in images:
        version = re.fullmatch(r"[^:@]+:v?(\d+(?:\.\d+)+)(-[a-z0-9.-]+)?@sha256:[0-9a-f]{64}", image)
        assert version is not None, image
        wanted = 2 if image.startswith("postgres:") else 3
        assert len(version[1].split(".")) == wanted, f"{image} is a moving tag"


@pytest.mark.parametrize("file", ["Dockerfile", "docker-compose.yml"])
def test_each_image_is_one_that_is_pinned(file: str) -> None:
    text = (ROOT / file).read_text()
    asked: list[str] = []

    def resolve(name: str) -> str:
        asked.append(name)
        return DIGEST

    done = pinned(text, resolve)
    assert asked == [image.split("@")[0] for image in _images(file)]
    assert done.count(DIGEST) == len(asked)
    assert [found["name"] for found in IMAGE.finditer(done)] == asked
    assert pinned(done, lambda _name: DIGEST) == done


@pytest.mark.parametrize(
    "line, expected",
    [
        pytest.param("FROM a:1.2.3\n", f"FROM a:1.2.3@{DIGEST}\n", id="from"),
        pytest.param("FROM a/b:1.2.3 AS build\n", f"FROM a/b:1.2.3@{DIGEST} AS build\n", id="stage"),
        pytest.param(f"    image: a:1.2@{OLD}\n", f"    image: a:1.2@{DIGEST}\n", id="renewed"),
        pytest.param("ARG PYTHON_IMAGE=a:1\n", f"ARG PYTHON_IMAGE=a:1@{DIGEST}\n", id="argument"),
        pytest.param("FROM ${PYTHON_IMAGE}\n", "FROM ${PYTHON_IMAGE}\n", id="variable"),
        pytest.param("FROM build\n", "FROM build\n", id="earlier-stage"),
        pytest.param("  image: registry\n", "  image: registry\n", id="ours"),
        pytest.param("# FROM a:1.2.3\n", "# FROM a:1.2.3\n", id="comment"),
    ],
)
def test_pinned(line: str, expected: str) -> None:
    assert pinned(line, lambda _name: DIGEST) == expected


def test_an_image_that_cannot_be_resolved_is_an_error() -> None:
    def resolve(name: str) -> str:
        raise Unresolved(name)

    with pytest.raises(Unresolved):
        pinned("FROM a:1.2.3\n", resolve)


@pytest.mark.parametrize(
    "script, said",
    [
        pytest.param("echo no route >&2; exit 1", "no route", id="fails"),
        pytest.param("echo '<no value>'", "<no value>", id="no-digest"),
        pytest.param(None, "neither skopeo nor docker", id="no-program"),
    ],
)
def test_nothing_is_written_without_a_digest(tmp_path: Path, script: str | None, said: str) -> None:
    if script is not None:
        (tmp_path / "skopeo").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "skopeo").chmod(0o755)
    before = [(ROOT / file).read_bytes() for file in ("Dockerfile", "docker-compose.yml")]
    done = subprocess.run([sys.executable, ROOT / "tools" / "pin_images.py"], env=os.environ | {"PATH": str(tmp_path)},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert [(ROOT / file).read_bytes() for file in ("Dockerfile", "docker-compose.yml")] == before


def test_files_ignored_by_git_are_not_in_the_build_context() -> None:
    """Secrets, above all: they are in the folder that the image is built from."""
    ignored = {line.strip("/") for line in (ROOT / ".dockerignore").read_text().splitlines()}
    of_git = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()}
    assert ignored >= of_git - {"__pycache__", "node_modules"}
    assert "**/__pycache__" in ignored
