"""Quotes and shortens the names and texts of reporting views for SQL."""

from __future__ import annotations

import hashlib
from typing import Final

from registry.store.reporting.model import Path


def identifier(name: str) -> str:
    return '"' + name.replace("\x00", "").replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quotes a text, correctly with any standard_conforming_strings. U+0000 becomes U+FFFD, as in documents."""
    text = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def array(path: Path) -> str:
    return "ARRAY[" + ", ".join(map(literal, path)) + "]::text[]"


# NAMEDATALEN - 1: PostgreSQL truncates longer names.
LONGEST: Final = 63
_DIGEST: Final = 8


def shorten(name: str, suffix: str) -> str:
    """`name` with the whole `suffix`; if both do not fit, as much of `name` as fits before a digest of it."""
    room = LONGEST - len(suffix)
    return (name if len(name.encode()) <= room else with_digest(name, name, room)) + suffix


def with_digest(name: str, whole: str, longest: int = LONGEST) -> str:
    """`name` with a digest of `whole`."""
    digest = hashlib.blake2b(whole.encode("utf-8", "replace"), digest_size=_DIGEST // 2).hexdigest()
    return f"{cut(name, longest - _DIGEST - 1) or 'field'}_{digest}"


def cut(text: str, size: int) -> str:
    """The longest prefix of whole characters that fits into `size` bytes of UTF-8."""
    return text.encode()[:size].decode("utf-8", "ignore").rstrip("_")
