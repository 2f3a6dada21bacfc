"""Property names as CEL identifiers: `my-prop` is `my__dash__prop`, `namespace` is `__namespace__`.

Follows apiserver pkg/cel/escaping.go.
"""

from __future__ import annotations

import re
from typing import Final

RESERVED: Final = frozenset(
    """
    true false null in as break const continue else for function if import let loop package namespace return var
    void while
    """.split()
)
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[-./]")
_ALLOWED: Final = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", re.ASCII)
_UNESCAPED: Final = re.compile(r"__([^_]+)__")
_NAMES: Final = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def escape(name: str) -> str | None:
    """The identifier of a property; None if it has none: `1st`, `a b`, and names with characters beyond ASCII."""
    if not _ALLOWED.fullmatch(name):
        return None
    if name in RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def unescape(identifier: str) -> str | None:
    """The property name of an identifier; None if it contains an unknown escape."""
    if "__" not in identifier:
        return identifier
    bad = False

    def original(match: re.Match[str]) -> str:
        nonlocal bad
        name = _NAMES.get(match[1])
        if name is not None:
            return name
        bad = bad or match[1] not in RESERVED or len(match[0]) != len(identifier)
        return match[1]

    text = _UNESCAPED.sub(original, identifier)
    return None if bad else text
