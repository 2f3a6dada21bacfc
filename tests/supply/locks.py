"""Parses the lock files in requirements/."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]


PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]


RUNTIME: list[str] = PROJECT["project"]["dependencies"]


def _lines(name: str) -> list[str]:
    """A logical line for each package: 'anyio==4.16.0 --hash=sha256:...'."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    text = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE)
    return text.replace("\\\n", " ").splitlines()


def pins(name: str) -> dict[str, Version]:
    found = [Requirement(line.split("--hash", 1)[0].strip()) for line in _lines(name)]
    return {canonicalize_name(pin.name): Version(str(pin.specifier).removeprefix("==")) for pin in found}


def wanted(requirements: list[str]) -> Iterator[Requirement]:
    """With those of our own extras, such as registry[clients]."""
    for requirement in map(Requirement, requirements):
        if requirement.name == PROJECT["project"]["name"]:
            for extra in requirement.extras:
                yield from wanted(EXTRAS[extra])
        else:
            yield requirement


# pip's words for an index that cannot be reached, or has nothing.
NO_INDEX = ("No matching distribution found", "Temporary failure in name resolution", "Connection refused",
            "Network is unreachable", "Max retries exceeded")  # fmt: skip
