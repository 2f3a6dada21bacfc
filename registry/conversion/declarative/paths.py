"""Field paths of rules: `spec.ports[*].name`, with or without a leading dot.

`[*]` selects all elements of a list, or all values of a map. A dot in a name is written `\\.`.
"""

from __future__ import annotations

import re
from typing import Final

from registry.schema.pruning import META_FIELDS

STAR: Final = "[*]"

Path = tuple[str, ...]

MAX_PATH: Final = 1000
MAX_STEPS: Final = 32
_NAME: Final = re.compile(r"((?:[^.\[\]\\]|\\.)+)((?:\[\*\])*)")


class PathError(ValueError):
    """The path is invalid; the text says why."""


def parse_path(text: str) -> Path:
    """`spec.ports[*].name` is ("spec", "ports", "[*]", "name"). Raises PathError."""
    if len(text) > MAX_PATH:
        raise PathError(f"must not be longer than {MAX_PATH} characters")
    steps: list[str] = []
    rest = text.removeprefix(".")
    while True:
        match = _NAME.match(rest)
        if match is None:
            raise PathError("must be names with dots between them, such as spec.ports[*].name")
        steps.append(re.sub(r"\\(.)", r"\1", match[1]))
        steps += [STAR] * (len(match[2]) // len(STAR))
        rest = rest[match.end() :]
        if not rest:
            break
        if not rest.startswith("."):
            raise PathError("must be names with dots between them, such as spec.ports[*].name")
        rest = rest[1:]
    if len(steps) > MAX_STEPS:
        raise PathError(f"must not have more than {MAX_STEPS} steps")
    if steps[0] in META_FIELDS:
        raise PathError(f"must not begin with {steps[0]}, which is converted by the server")
    return tuple(steps)


def format_path(path: Path) -> str:
    text = ""
    for step in path:
        escaped = step.replace("\\", "\\\\").replace(".", "\\.")
        text += STAR if step == STAR else f".{escaped}" if text else escaped
    return text


def split(path: Path) -> tuple[Path, Path]:
    """Splits a path after its last `[*]`: the path of the elements, and the path within one."""
    place = len(path) - path[::-1].index(STAR) if STAR in path else 0
    return path[:place], path[place:]
