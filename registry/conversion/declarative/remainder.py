"""What a conversion loses, and how it comes back.

An object O of version A becomes R of version B, and would become O' again. Where O' is not O, R carries what tells
them apart in an annotation, by the version that it is about:

    conversion.registry/remainder: '{"v1beta1":[{"path":["spec","note"],"is":"kept"}]}'

`was` is what O' has at the path, `is` what O has; the member is missing where there is nothing. On the way back a part
is put in only where there is what `was`, so that what somebody has changed at B stands. Elements of lists are found by
what they are, not by their place: at B some may have been added or removed.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from registry.codec.json_encode import encode_canonical
from registry.codec.stored import decode_stored
from registry.schema.values import same

Json = Any

ANNOTATION: Final = "conversion.registry/remainder"
# All annotations of an object may have 256 KiB.
MAX_REMAINDER: Final = 128 * 1024
_NOTHING: Final = object()
_HEAD: Final = ("apiVersion", "kind", "metadata")


def differences(obj: Json, other: Json) -> list[dict[str, Json]]:
    """What makes `other` into `obj`. Lists of the same length differ by elements, others as a whole."""
    return [] if _same_text(obj, other) else compare_values(obj, other)  # nearly all are, and this is found quickly


def compare_values(obj: Json, other: Json) -> list[dict[str, Json]]:
    """The same for what is not the same text."""
    entries: list[dict[str, Json]] = []
    pending: list[tuple[tuple[str | int, ...], Json, Json]] = [((), other, obj)]
    while pending:
        path, was, wanted = pending.pop()
        if was.__class__ is dict and wanted.__class__ is dict and not (path and path[-1].__class__ is int):
            names = sorted({*wanted, *was})  # the same whatever way an object has come
            pending += [
                ((*path, n), was.get(n, _NOTHING), wanted.get(n, _NOTHING))
                for n in reversed(names)
                if path or n not in _HEAD
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
            {k: v for k, v in obj.items() if k not in _HEAD}, option=orjson.OPT_SORT_KEYS
        ) == orjson.dumps({k: v for k, v in other.items() if k not in _HEAD}, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # deeper, or with other texts, than it writes
        return False


def restore(obj: Json, entries: Json) -> None:
    """Puts in what `differences` gave, where `obj` still has what it had. Entries of another shape are passed over."""
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("path"), list):
            path = entry["path"]
            if path and path[0] not in _HEAD:
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
        there = holder.get(last, _NOTHING)
        if (there is _NOTHING) != (was is _NOTHING) or (was is not _NOTHING and not same(there, was)):
            return
        if wanted is not _NOTHING:
            holder[last] = wanted
        elif was is not _NOTHING:
            del holder[last]


def _restore_element(holder: list[Json], place: int, was: Json, wanted: Json) -> None:
    """The element at its place if that is it, else the first that is."""
    if 0 <= place < len(holder) and same(holder[place], was):
        holder[place] = wanted
        return
    for i, element in enumerate(holder):
        if same(element, was):
            holder[i] = wanted
            return


def take_annotation(metadata: dict[str, Json]) -> dict[str, Json]:
    """The remainders of an object by version; the annotation is taken out. One that cannot be read is none."""
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
        found = decode_stored(text) if isinstance(text, str) and len(text) <= MAX_REMAINDER else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def put_annotation(metadata: dict[str, Json], remainders: dict[str, Json]) -> None:
    """Puts the annotation in. Raises ValueError where it would be too long."""
    if not remainders:
        return
    text = encode_canonical(remainders)
    if len(text) > MAX_REMAINDER:
        raise ValueError(f"what other versions do not know of it is longer than {MAX_REMAINDER} characters")
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: text}
