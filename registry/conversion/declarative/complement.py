"""The complement of a conversion: what it loses, kept in an annotation so that converting back restores it.

Object O of version A becomes R of version B; converted back it would be O'. Where O' differs from O, R carries the
difference in an annotation, keyed by the version that it belongs to:

    conversion.registry/remainder: '{"v1beta1":[{"path":["spec","note"],"is":"kept"}]}'

`was` is the value at the path in O', `is` the value in O; a missing member means that there is no value. Converting
back restores an entry only where the value is still `was`, so that changes made at B take precedence. Elements of lists
are matched by value, not by index: at B elements may have been added or removed.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from registry.codec.json_encode import encode_canonical
from registry.codec.stored import decode_stored
from registry.schema.pruning import META_FIELDS
from registry.schema.values import same

Json = Any

ANNOTATION: Final = "conversion.registry/remainder"
# Kubernetes allows 256 KiB for all annotations of an object.
MAX_REMAINDER: Final = 128 * 1024
_NOTHING: Final = object()


def differences(obj: Json, other: Json) -> list[dict[str, Json]]:
    """The entries that turn `other` into `obj`. Lists of equal length are compared by element, others as a whole."""
    return [] if _same_text(obj, other) else compare_values(obj, other)  # the usual case, and fast to check


def compare_values(obj: Json, other: Json) -> list[dict[str, Json]]:
    """The same for values whose texts are known to differ."""
    entries: list[dict[str, Json]] = []
    pending: list[tuple[tuple[str | int, ...], Json, Json]] = [((), other, obj)]
    while pending:
        path, was, wanted = pending.pop()
        if was.__class__ is dict and wanted.__class__ is dict and not (path and path[-1].__class__ is int):
            names = sorted({*wanted, *was})  # the order must not depend on how the object was created
            pending += [
                ((*path, n), was.get(n, _NOTHING), wanted.get(n, _NOTHING))
                for n in reversed(names)
                if path or n not in META_FIELDS
            ]
        elif (
            was.__class__ is list
            and wanted.__class__ is list
            and len(was) == len(wanted)
            and not (path and path[-1].__class__ is int)
        ):
            pending += [((*path, i), was[i], wanted[i]) for i in reversed(range(len(was)))]
        elif was is _NOTHING or wanted is _NOTHING or not same(was, wanted):
            entry: dict[str, Json] = {"path": list(path)}
            if was is not _NOTHING:
                entry["was"] = was
            if wanted is not _NOTHING:
                entry["is"] = wanted
            entries.append(entry)
    return entries


def _same_text(obj: Json, other: Json) -> bool:
    try:
        return orjson.dumps(
            {k: v for k, v in obj.items() if k not in META_FIELDS}, option=orjson.OPT_SORT_KEYS
        ) == orjson.dumps({k: v for k, v in other.items() if k not in META_FIELDS}, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # nested deeper than orjson allows, or with invalid Unicode
        return False


def restore(obj: Json, entries: Json) -> None:
    """Applies the entries of `differences` where `obj` still has their `was`. Malformed entries are ignored."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("path"), list):
            path = entry["path"]
            if path and path[0] not in META_FIELDS:
                _restore(obj, entry)


def _restore(obj: Json, entry: dict[str, Json]) -> None:
    *above, last = entry["path"]
    holder = obj
    for name in above:
        if not isinstance(name, str) or holder.__class__ is not dict:
            return
        holder = holder.get(name)
    was, wanted = entry.get("was", _NOTHING), entry.get("is", _NOTHING)
    if holder.__class__ is list and isinstance(last, int):
        if wanted is not _NOTHING and was is not _NOTHING:
            _restore_element(holder, last, was, wanted)
    elif holder.__class__ is dict and isinstance(last, str):
        present = holder.get(last, _NOTHING)
        if (present is _NOTHING) != (was is _NOTHING) or (was is not _NOTHING and not same(present, was)):
            return
        if wanted is not _NOTHING:
            holder[last] = wanted
        elif was is not _NOTHING:
            del holder[last]


def _restore_element(holder: list[Json], place: int, was: Json, wanted: Json) -> None:
    """Replaces the element at its index if that equals `was`, else the first equal one."""
    if 0 <= place < len(holder) and same(holder[place], was):
        holder[place] = wanted
        return
    for i, element in enumerate(holder):
        if same(element, was):
            holder[i] = wanted
            return


def take_annotation(metadata: dict[str, Json]) -> dict[str, Json]:
    """Removes the annotation and returns the complements by version. An unreadable annotation counts as none."""
    annotations = metadata.get("annotations")
    if not annotations or ANNOTATION not in annotations:
        return {}
    text = annotations[ANNOTATION]
    rest = {k: v for k, v in annotations.items() if k != ANNOTATION}
    if rest:
        metadata["annotations"] = rest
    else:
        del metadata["annotations"]
    try:
        losses = decode_stored(text) if isinstance(text, str) and len(text) <= MAX_REMAINDER else None
    except (ValueError, RecursionError):
        return {}
    return losses if isinstance(losses, dict) else {}


def put_annotation(metadata: dict[str, Json], complements: dict[str, Json]) -> None:
    """Sets the annotation. Raises ValueError where it would be too long."""
    if not complements:
        return
    text = encode_canonical(complements)
    if len(text) > MAX_REMAINDER:
        raise ValueError(f"what other versions do not know of it is longer than {MAX_REMAINDER} characters")
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: text}
