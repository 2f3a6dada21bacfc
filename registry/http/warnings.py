"""Warning headers (RFC 7234, code 299), bounded as kube-apiserver bounds them.

Texts with control characters are dropped. Once the texts together exceed 4096 characters, all are cut to 256, and
they are collected until their sum passes 4096 again.

Follows apiserver pkg/endpoints/filters/warning.go and apimachinery pkg/util/net/http.go (NewWarningHeader).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_TOTAL_CHARACTERS = 4096
_CUT_CHARACTERS = 256


def warning_headers(texts: Sequence[str]) -> list[tuple[bytes, bytes]]:
    return [(b"warning", _header(text)) for text in bound_warnings(texts)]


def bound_warnings(texts: Iterable[str]) -> list[str]:
    """Returns each text once, in order, within the limits."""
    bounded: list[str] = []
    written, cutting = 0, False
    for text in dict.fromkeys(texts):
        if not text or not _printable(text):
            continue
        if written >= _TOTAL_CHARACTERS:
            break
        bounded.append(text)
        written += len(text)
        if written > _TOTAL_CHARACTERS and not cutting:
            cutting = True
        if cutting:
            bounded = [t[:_CUT_CHARACTERS] for t in bounded]
            written = sum(len(t) for t in bounded)
    return bounded


def _printable(text: str) -> bool:
    return all(c >= " " and c != "\x7f" for c in text)


def _header(text: str) -> bytes:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode()
