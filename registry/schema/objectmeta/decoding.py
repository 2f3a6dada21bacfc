"""Decoding of ObjectMeta: Go's field types, unknown fields, and omission of empty fields.

In kube-apiserver a written object's metadata passes through a Go struct, and so loses unknown fields, nulls, empty
texts, lists and maps; times are rewritten in UTC with whole seconds. Metadata that this would not change is returned
as it is. The rules on the values are in rules.py.

Follows apimachinery pkg/apis/meta/v1/types.go and apiextensions-apiserver pkg/apiserver/schema/objectmeta/coerce.go;
errors are in kube-apiserver's order, which sorts the keys before decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from registry.schema.field import go_float
from registry.schema.gotime import TimeError, canonical_time
from registry.schema.objectmeta.rules import (
    finalizer_warnings,
    late_owner_warnings,
    owner_reference_warnings,
    validate_object_meta,
    validate_object_meta_common,
    validate_object_meta_update,
    validate_update_thrice,
)
from registry.schema.values import Json

__all__ = [
    "MetadataDecodeError",
    "decode_object_meta",
    "drop_malformed",
    "finalizer_warnings",
    "late_owner_warnings",
    "owner_reference_warnings",
    "validate_object_meta",
    "validate_object_meta_common",
    "validate_object_meta_update",
    "validate_update_thrice",
]

# kube-apiserver stops collecting unknown fields here, which bounds the response.
_MAX_UNKNOWN = 100


class MetadataDecodeError(ValueError):
    """A value cannot be decoded; the text is Go's, without `W in version "v1" cannot be handled as a W: `."""


def decode_object_meta(
    meta: Json, *, unknown: list[str] | None, path: str = "metadata", go_prefix: str = ""
) -> dict[str, Any]:
    """`meta` as the Go struct would be encoded; `meta` itself (unchanged) when nothing changes.

    `{"name": "a", "labels": {}, "colour": 1}` gives `{"name": "a"}` and appends `metadata.colour` to `unknown`.
    `go_prefix` precedes field names in error texts: "" for custom resources, `metadata.` for Go types.
    Raises DecodeError: `json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string`.
    """
    if meta.__class__ is dict:
        for name, value in meta.items():
            ordinary = _ORDINARY.get(name)
            if ordinary is None or not ordinary(value):
                break
        else:
            return meta
    return _Decoder(path, go_prefix, unknown).decode(meta)


def drop_malformed(meta: dict[str, Any]) -> dict[str, Any]:
    """`meta` without the fields that cannot be decoded, each as a whole: `{"labels": {"a": 1}}` gives `{}`.

    Metadata of custom resources that a webhook has changed is read field by field; what has another type is not there
    (apimachinery pkg/apis/meta/v1/unstructured/unstructured.go).
    """
    return {name: value for name, value in meta.items() if _is_decodable(name, value)}


def _is_decodable(name: str, value: Json) -> bool:
    try:
        decode_object_meta({name: value}, unknown=None)
    except MetadataDecodeError:
        return False
    return True


# ---- fast path: would decoding change this field?


def _is_text(value: Json) -> bool:
    return value.__class__ is str and value != ""


def _is_time(value: Json) -> bool:
    if value.__class__ is not str or len(value) != 20 or value == _ZERO_TIME:
        return False
    try:
        return canonical_time(value) == value
    except TimeError:
        return False


def _is_text_map(value: Json) -> bool:
    if value.__class__ is not dict or not value:
        return False
    return all(text.__class__ is str for text in value.values())


def _is_text_list(value: Json) -> bool:
    if value.__class__ is not list or not value:
        return False
    return all(text.__class__ is str for text in value)


def _is_list_of(checks: dict[str, Callable[[Json], bool]], needed: frozenset[str]) -> Callable[[Json], bool]:
    def check(value: Json) -> bool:
        if value.__class__ is not list or not value:
            return False
        for entry in value:
            if entry.__class__ is not dict or not entry.keys() >= needed:
                return False
            for name, inner in entry.items():
                ordinary = checks.get(name)
                if ordinary is None or not ordinary(inner):
                    return False
        return True

    return check


_ZERO_TIME = "0001-01-01T00:00:00Z"


def _by_name(checks: dict[str, Callable[[Json], bool]]) -> dict[str, Callable[[Json], bool]]:
    """Returns the check of each of several names: `{"name uid": check}`."""
    return {name: check for names, check in checks.items() for name in names.split()}


_ORDINARY: dict[str, Callable[[Json], bool]] = _by_name(
    {
        "name generateName namespace selfLink uid resourceVersion": _is_text,
        "generation": lambda value: value.__class__ is int and value != 0,
        "deletionGracePeriodSeconds": lambda value: value.__class__ is int,
        "creationTimestamp deletionTimestamp": _is_time,
        "labels annotations": _is_text_map,
        "finalizers": _is_text_list,
        "ownerReferences": _is_list_of(
            _by_name(
                {
                    "apiVersion kind name uid": lambda value: value.__class__ is str,
                    "controller blockOwnerDeletion": lambda value: value.__class__ is bool,
                }
            ),
            frozenset({"apiVersion", "kind", "name", "uid"}),
        ),
        "managedFields": _is_list_of(
            _by_name(
                {
                    "manager operation apiVersion fieldsType subresource": _is_text,
                    "time": _is_time,
                    "fieldsV1": lambda value: value.__class__ is dict,
                }
            ),
            frozenset(),
        ),
    }
)


# ---- the complete algorithm

_GO_VALUES = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}


class _Decoder:
    """One decoding. The first wrong type is kept and raised at the end; an invalid time raises at once."""

    def __init__(self, path: str, go_prefix: str, unknown: list[str] | None) -> None:
        self.path = path
        self.go_prefix = go_prefix
        self.unknown = unknown
        self.seen_unknown = 0
        self.error: str | None = None

    def decode(self, meta: Json) -> dict[str, Any]:
        if meta is None:
            return {}
        if meta.__class__ is not dict:
            raise MetadataDecodeError(
                f"json: cannot unmarshal {_GO_VALUES[meta.__class__]} into Go value of type v1.ObjectMeta"
            )
        result = self.struct(meta, "ObjectMeta", _OBJECT_META, self.go_prefix, self.path)
        if self.error is not None:
            raise MetadataDecodeError(self.error)
        return result

    def struct(
        self, value: dict[str, Any], name: str, fields: dict[str, _Field], go_path: str, path: str
    ) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key in sorted(value):
            field = fields.get(key)
            if field is None:
                self.saw_unknown(f"{path}.{key}")
                continue
            read, go_type, keep_empty = field
            decoded = read(self, value[key], go_type, name, go_path + key, f"{path}.{key}")
            if decoded is not None and (keep_empty or decoded or decoded is False):
                result[key] = decoded
        return result

    def saw_unknown(self, path: str) -> None:
        if self.unknown is not None and self.seen_unknown < _MAX_UNKNOWN:
            self.seen_unknown += 1
            self.unknown.append(path)

    def wrong(self, value: Json, go_type: str, struct: str, go_path: str) -> None:
        self.wrong_text(_GO_VALUES[value.__class__], go_type, struct, go_path)

    def wrong_text(self, value_text: str, go_type: str, struct: str, go_path: str) -> None:
        if self.error is None:
            self.error = (
                f"json: cannot unmarshal {value_text} into Go struct field {struct}.{go_path} of type {go_type}"
            )

    # Readers: (value, Go type, name of the struct, Go's path, our path) -> decoded value, None for an absent one.

    def text(self, value: Json, go_type: str, struct: str, go_path: str, path: str) -> str | None:
        if value.__class__ is str:
            return value
        if value is not None:
            self.wrong(value, go_type, struct, go_path)
        return None

    def boolean(self, value: Json, go_type: str, struct: str, go_path: str, path: str) -> bool | None:
        if value.__class__ is bool:
            return value
        if value is not None:
            self.wrong(value, go_type, struct, go_path)
        return None

    def integer(self, value: Json, go_type: str, struct: str, go_path: str, path: str) -> int | None:
        if value.__class__ is int:
            return value
        if value.__class__ is float:
            if value.is_integer() and -(2.0**63) <= value < 2.0**63:
                return int(value)
            self.wrong_text("number " + go_float(value), go_type, struct, go_path)
        elif value is not None:
            self.wrong(value, go_type, struct, go_path)
        return None

    def time(self, value: Json, go_type: str, struct: str, go_path: str, path: str) -> str | None:
        if value is None:
            return None
        if value.__class__ is not str:
            # kube-apiserver has a separate decoder for this, so it is raised at once, before any other error.
            raise MetadataDecodeError(
                f"json: cannot unmarshal {_GO_VALUES[value.__class__]} into Go struct field "
                f"{struct}.{go_path} of type string"
            )
        try:
            decoded = canonical_time(value)
        except TimeError as error:
            raise MetadataDecodeError(str(error)) from error
        return None if decoded == _ZERO_TIME else decoded

    def text_map(self, value: Json, go_type: str, struct: str, go_path: str, path: str) -> dict[str, str] | None:
        if value.__class__ is not dict:
            if value is not None:
                self.wrong(value, go_type, struct, go_path)
            return None
        return {key: self.text(value[key], "string", struct, go_path, path) or "" for key in sorted(value)}

    def text_list(self, value: Json, go_type: str, struct: str, go_path: str, path: str) -> list[str] | None:
        if value.__class__ is not list:
            if value is not None:
                self.wrong(value, go_type, struct, go_path)
            return None
        return [self.text(item, "string", struct, go_path, path) or "" for item in value]

    def anything(self, value: Json, go_type: str, struct: str, go_path: str, path: str) -> Json:
        return value

    def owner_references(
        self, value: Json, go_type: str, struct: str, go_path: str, path: str
    ) -> list[dict[str, Any]] | None:
        entries = self.structs(value, go_type, struct, go_path, path, "OwnerReference", _OWNER_REFERENCE)
        for entry in entries or ():
            for name in ("apiVersion", "kind", "name", "uid"):
                entry.setdefault(name, "")
        return entries

    def managed_fields(
        self, value: Json, go_type: str, struct: str, go_path: str, path: str
    ) -> list[dict[str, Any]] | None:
        return self.structs(value, go_type, struct, go_path, path, "ManagedFieldsEntry", _MANAGED_FIELDS_ENTRY)

    def structs(
        self, value: Json, go_type: str, struct: str, go_path: str, path: str, name: str, fields: dict[str, _Field]
    ) -> list[dict[str, Any]] | None:
        if value.__class__ is not list:
            if value is not None:
                self.wrong(value, go_type, struct, go_path)
            return None
        result: list[dict[str, Any]] = []
        for position, entry in enumerate(value):
            if entry.__class__ is dict:
                result.append(self.struct(entry, name, fields, go_path + ".", f"{path}[{position}]"))
            else:
                if entry is not None:
                    self.wrong(entry, "v1." + name, struct, go_path)
                result.append({})
        return result


# How a field is decoded, its Go type, and whether it is kept when empty (0, "", [], {}).
_Field = tuple[Callable[[_Decoder, Json, str, str, str, str], Json], str, bool]

_OBJECT_META: dict[str, _Field] = {
    "name": (_Decoder.text, "string", False),
    "generateName": (_Decoder.text, "string", False),
    "namespace": (_Decoder.text, "string", False),
    "selfLink": (_Decoder.text, "string", False),
    "uid": (_Decoder.text, "types.UID", False),
    "resourceVersion": (_Decoder.text, "string", False),
    "generation": (_Decoder.integer, "int64", False),
    "creationTimestamp": (_Decoder.time, "v1.Time", False),
    "deletionTimestamp": (_Decoder.time, "v1.Time", False),
    "deletionGracePeriodSeconds": (_Decoder.integer, "int64", True),
    "labels": (_Decoder.text_map, "map[string]string", False),
    "annotations": (_Decoder.text_map, "map[string]string", False),
    "ownerReferences": (_Decoder.owner_references, "[]v1.OwnerReference", False),
    "finalizers": (_Decoder.text_list, "[]string", False),
    "managedFields": (_Decoder.managed_fields, "[]v1.ManagedFieldsEntry", False),
}

_OWNER_REFERENCE: dict[str, _Field] = {
    "apiVersion": (_Decoder.text, "string", True),
    "kind": (_Decoder.text, "string", True),
    "name": (_Decoder.text, "string", True),
    "uid": (_Decoder.text, "types.UID", True),
    "controller": (_Decoder.boolean, "bool", True),
    "blockOwnerDeletion": (_Decoder.boolean, "bool", True),
}

_MANAGED_FIELDS_ENTRY: dict[str, _Field] = {
    "manager": (_Decoder.text, "string", False),
    "operation": (_Decoder.text, "v1.ManagedFieldsOperationType", False),
    "apiVersion": (_Decoder.text, "string", False),
    "time": (_Decoder.time, "v1.Time", False),
    "fieldsType": (_Decoder.text, "string", False),
    "fieldsV1": (_Decoder.anything, "v1.FieldsV1", True),
    "subresource": (_Decoder.text, "string", False),
}
