"""Access to the metadata of decoded objects that ownership needs, and their names in errors."""

from __future__ import annotations

import contextlib

from registry.apply.errors import InvalidApply
from registry.apply.managed import Managed, encode
from registry.apply.values import equal
from registry.codec.structs.base import StructDecodeError
from registry.schema.model import Json
from registry.schema.objectmeta.decoding import decode_object_meta

Object = dict[str, Json]


def entries_of(value: Object) -> list[Object] | None:
    metadata = value.get("metadata")
    return metadata.get("managedFields") if metadata else None


def check_applied(applied: Object, api_version: str, kind: str) -> None:
    """Raises InvalidApply if a configuration is of another kind, or has managedFields.

    Entries that cannot be read count as none, and the validation against the type refuses most of them
    (apimachinery pkg/apis/meta/v1/unstructured/unstructured.go, GetManagedFields).
    """
    if applied.get("apiVersion") != api_version or applied.get("kind") != kind:
        raise InvalidApply(f"invalid object type: {group_version_kind(applied)}")
    metadata = applied.get("metadata")
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return
    with contextlib.suppress(StructDecodeError):
        decode_object_meta({"managedFields": entries}, unknown=None)
        raise InvalidApply("metadata.managedFields must be nil")


def without_managed(value: Object) -> Object:
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return value
    return {**value, "metadata": {name: part for name, part in metadata.items() if name != "managedFields"}}


def with_managed(value: Object, managed: Managed) -> Object:
    metadata = value.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    if managed:
        metadata["managedFields"] = encode(managed)
    else:
        metadata.pop("managedFields", None)
    return {**value, "metadata": metadata}


def display_name(value: Object) -> str:
    """`<namespace>/<name>; <group/version>, Kind=<kind>`, as the body has it."""
    metadata = value.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    namespace, name = (names.get(key) if isinstance(names.get(key), str) else "" for key in ("namespace", "name"))
    return f"{namespace}/{name}; {group_version_kind(value)}"


def group_version_kind(value: Object) -> str:
    """`g/v1, Kind=Widget`; the core group is empty: `/v1, Kind=Secret`. An odd version hides the kind: `/, Kind=`."""
    api_version, kind = (value.get(key) if isinstance(value.get(key), str) else "" for key in ("apiVersion", "kind"))
    assert isinstance(api_version, str)
    slashes = api_version.count("/")
    return "/, Kind=" if slashes > 1 else f"{'' if slashes else '/'}{api_version}, Kind={kind}"


def is_unchanged(live: Object, new: Object) -> bool:
    """Whether only times of managedFields differ: such a write keeps the stored state, times included."""
    old_entries, new_entries = entries_of(live), entries_of(new)
    if old_entries is not new_entries:
        if len(old_entries or ()) != len(new_entries or ()):
            return False
        timeless = [
            [{name: part for name, part in entry.items() if name != "time"} for entry in entries or ()]
            for entries in (old_entries, new_entries)
        ]
        if timeless[0] != timeless[1]:
            return False
    return has_same_contents(live, new)


def has_same_contents(live: Object, new: Object) -> bool:
    """Whether two objects differ in nothing but their managedFields."""
    return equal(without_managed(live), without_managed(new))
