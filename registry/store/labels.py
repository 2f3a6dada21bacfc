"""The labels of a stored object, as PostgreSQL sends them or as they are written, decoded when they are asked for.

Few ask for those of a change, and an object may have 60,000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import Final

# The form of array_send(): dimensions, flags, type, and length and first index of the one dimension; then the items.
_HEADER: Final = Struct("!iiIii")
_length: Final = Struct("!i").unpack_from


class StoredLabels:
    """What selectors match: labels, and `f:<path>` of selectable fields."""

    __slots__ = ("_by_key", "_elements", "_encoded", "_prefix")

    def __init__(self, encoded: bytes | None = None, prefix: int = 0) -> None:
        """`encoded` is `array_send(labels)` of elements `key=value` after `prefix` characters (encoding.py)."""
        self._encoded = encoded or b""
        self._prefix = prefix
        self._elements: Sequence[str] = ()
        self._by_key: Mapping[str, str] | None = None if encoded else {}

    @classmethod
    def of(cls, elements: Sequence[str]) -> StoredLabels:
        """`elements` are `key=value`, in the column's form (encoding.py)."""
        labels = cls()
        if elements:
            labels._elements, labels._by_key = elements, None
        return labels

    @property
    def undecoded_bytes(self) -> int:
        """What `by_key` will have to read, approximately."""
        if self._by_key is not None:
            return 0
        return len(self._encoded) + sum(map(len, self._elements))

    @property
    def by_key(self) -> Mapping[str, str]:
        """Values by key. A long value is a digest (encoding.py)."""
        if self._by_key is None:
            elements = self._elements or _texts(self._encoded)
            self._by_key = _split(elements, self._prefix)
            self._encoded, self._elements = b"", ()
        return self._by_key


def _split(elements: Iterable[str], prefix: int) -> dict[str, str]:
    values = {}
    for element in elements:
        key, _, value = element[prefix:].partition("=")
        values[key] = value
    return values


def _texts(encoded: bytes) -> Iterable[str]:
    if not _HEADER.unpack_from(encoded)[0]:
        return
    place, end = _HEADER.size, len(encoded)
    while place < end:
        start = place + 4
        place = start + _length(encoded, place)[0]
        yield encoded[start:place].decode()


NO_LABELS: Final = StoredLabels()
