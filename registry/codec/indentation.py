"""How much of a document in indented JSON or YAML is indentation: nested ten thousand deep, 59 kB become 100 MB."""

from __future__ import annotations

from typing import Any

from registry.codec.model import Json

_STEP = 2
# YAML folds long texts here, at blanks, and indents each line.
_WIDTH = 80


# Definitions, the deepest documents that people read, are indented by about as much as their JSON is long.
_MAX_SHARE = 4
_ALWAYS_BYTES = 1 << 20


def is_mostly_indentation(value: Json, length: int) -> bool:
    """Whether `value`, whose JSON has `length` bytes, should not be indented, of whatever depth it is.

    About: more than 1 MiB, and more than four times the JSON, would be blanks at the beginning of lines.
    """
    max_bytes = max(_ALWAYS_BYTES, _MAX_SHARE * length)
    total, indent = 0, 0
    level: list[Any] = [value]
    while level:
        below: list[Any] = []
        for container in level:
            total += len(container) * indent
            for member in container.values() if type(container) is dict else container:
                if type(member) is dict or type(member) is list:
                    below.append(member)
                elif type(member) is str and len(member) > _WIDTH:
                    total += indent * _lines(member, indent)
        if total > max_bytes:
            return True
        level = below
        indent += _STEP
    return False


def _lines(text: str, indent: int) -> int:
    """How many lines a long text takes at the most: its own, and those that YAML makes of it."""
    return text.count("\n") + min(text.count(" "), len(text) // max(_WIDTH - indent, 1))
