"""Adds the digests of the images that Dockerfile and docker-compose.yml name, and renews them: `make pin-images`.

'postgres:18.6-trixie' becomes 'postgres:18.6-trixie@sha256:...', the digest of the list for all architectures. It is
asked of the registry of images by docker (with buildx) or skopeo; where neither can, nothing is written.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("Dockerfile", "docker-compose.yml")
# A name with an exact version in `ARG ..._IMAGE=`, `FROM` or `image:`, and perhaps a digest; not a stage, a variable or
# the image that is built here.
IMAGE = re.compile(
    r"^(?P<before>\s*(?:ARG \w+_IMAGE=|FROM |image: ))(?P<name>[a-z0-9][\w./-]*:[\w][\w.-]*)(?:@sha256:[0-9a-f]{64})?"
    r"(?=\s|$)",
    re.MULTILINE,
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TIMEOUT_SECONDS = 60


class Unresolved(Exception):
    """The digest of an image could not be asked for."""


def pinned(text: str, resolve: Callable[[str], str]) -> str:
    """The text with the digest that `resolve('postgres:18.6-trixie')` returns after each image."""
    return IMAGE.sub(lambda found: f"{found['before']}{found['name']}@{resolve(found['name'])}", text)


def resolve(name: str) -> str:
    """'sha256:...'. Raises Unresolved."""
    if shutil.which("skopeo"):
        command = ["skopeo", "inspect", "--no-tags", "--format", "{{.Digest}}", f"docker://docker.io/{_path(name)}"]
    elif shutil.which("docker"):
        command = ["docker", "buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", name]
    else:
        raise Unresolved("neither skopeo nor docker is on this machine")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unresolved(f"{name}: {command[0]} has not answered in {TIMEOUT_SECONDS} s") from None
    digest = done.stdout.strip()
    if done.returncode or not DIGEST.fullmatch(digest):
        raise Unresolved(f"{name}: {done.stderr.strip() or f'{command[0]} says {digest!r}'}")
    return digest


def _path(name: str) -> str:
    """'library/postgres:18.6-trixie': where Docker Hub keeps its official images."""
    return name if "/" in name else f"library/{name}"


def main() -> int:
    try:
        texts = {file: pinned((ROOT / file).read_text(), resolve) for file in FILES}
    except Unresolved as problem:
        print(f"nothing is changed: {problem}", file=sys.stderr)
        return 1
    for file, text in texts.items():
        (ROOT / file).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
