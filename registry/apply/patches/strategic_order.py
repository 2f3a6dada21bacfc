"""The order of a list after a strategic merge patch.

Items of the patch are in the patch's order, the others in their previous order; when both sequences are merged, an item
of the others comes first only where it preceded the next item of the patch. So new items come first. Follows
normalizeElementOrder and mergeSortedSlice of apimachinery pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from registry.codec.sorting import sorted_by
from registry.schema.model import Json


def order_list(
    merged: list[Json], patch_order: list[Json], server_order: list[Json], key: Callable[[Json], Any]
) -> list[Json]:
    """`merged` in its final order; `key` returns the identity of an item."""
    patched, server = _places(patch_order, key), _places(server_order, key)
    right = sorted_by(
        [item for item in merged if comparable(key(item)) in patched], lambda item: patched[comparable(key(item))]
    )
    left = sorted_by(
        [item for item in merged if comparable(key(item)) not in patched],
        lambda item: server.get(comparable(key(item)), 0),
    )
    result: list[Json] = []
    i = j = 0
    while i < len(left) and j < len(right):
        place, other = server.get(comparable(key(left[i]))), server.get(comparable(key(right[j])))
        if place is not None and other is not None and place < other:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + right[j:] + left[i:]


def _places(items: list[Json], key: Callable[[Json], Any]) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(comparable(key(item)), place)
    return places


def comparable(value: Json) -> Any:
    """A hashable form of a key. Keys of valid objects are scalars, but a client may send anything."""
    return (type(value), value) if not isinstance(value, (dict, list)) else (type(value), repr(value))
