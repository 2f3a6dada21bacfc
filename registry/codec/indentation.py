"""Estimates indentation in indented JSON or YAML: nested ten thousand levels deep, 59 kB become 100 MB."""

from __future__ import annotations

from typing import Any

from registry.codec.model import Json

_STEP = 2
# YAML folds long strings at blanks after this many columns, and indents each line.
_WIDTH = 80


# Definitions, the deepest documents in practice, have about as much indentation as JSON.
_MAX_SHARE = 4
_ALWAYS_BYTES = 1 << 20


def is_mostly_indentation(value: Json, length: int) -> bool:
    """Whether `value`, whose JSON has `length` bytes, should not be indented. Safe at any depth.

    True if the indentation would be approximately more than 1 MiB and more than four times the JSON.
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
    """The maximum number of lines that a long string takes: its own, and those that YAML folds it into."""
    return text.count("\n") + min(text.count(" "), len(text) // max(_WIDTH - indent, 1))
