"""Decoding of ObjectMeta: Go's field types, unknown fields, and omission of empty fields.

In kube-apiserver a written object's metadata passes through a Go struct, and so loses unknown fields, nulls, empty
texts, lists and maps; times are rewritten in UTC with whole seconds. Metadata that this would not change is returned
as it is. The rules on the values are in rules.py.

Follows apiextensions-apiserver pkg/apiserver/schema/objectmeta/coerce.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from registry.codec.go_time import TimeError, canonical_time
from registry.codec.structs.base import ROOT, DecodingContext, StructDecodeError
from registry.codec.structs.meta import META, ZERO_TIME
from registry.schema.values import Json


def decode_object_meta(meta: Json, *, unknown: list[str] | None, path: str = "metadata") -> dict[str, Any]:
    """`meta` as the Go struct would be encoded; `meta` itself (unchanged) when nothing changes.

    `{"name": "a", "labels": {}, "colour": 1}` gives `{"name": "a"}` and appends `metadata.colour` to `unknown`.
    Raises StructDecodeError: `json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string`.
    """
    if meta is None:
        return {}
    if meta.__class__ is dict:
        if _is_ordinary(meta, _ORDINARY):
            return meta
        # Typed clients send `"creationTimestamp": null` with each object.
        filled = {name: value for name, value in meta.items() if value is not None or name not in _ORDINARY}
        if len(filled) < len(meta) and _is_ordinary(filled, _ORDINARY):
            return filled
    paths: list[str] | None = None if unknown is None else []
    context = DecodingContext(paths, is_reencoded=True)
    decoded = context.finish(_OBJECT_META.decode(meta, ROOT, context))
    if unknown is not None:
        unknown.extend(f"{path}.{field}" for field in paths or ())
    encoded: dict[str, Any] = _OBJECT_META.encode(decoded)
    return encoded


_OBJECT_META = META["ObjectMeta"]


def drop_malformed(meta: dict[str, Any]) -> dict[str, Any]:
    """`meta` without the fields that cannot be decoded, each as a whole: `{"labels": {"a": 1}}` gives `{}`.

    Metadata of custom resources that a webhook or an apply has changed is read field by field; what has another type is
    not there (apimachinery pkg/apis/meta/v1/unstructured/unstructured.go).
    """
    return {name: value for name, value in meta.items() if _is_decodable(name, value)}


def _is_decodable(name: str, value: Json) -> bool:
    try:
        decode_object_meta({name: value}, unknown=None)
    except StructDecodeError:
        return False
    return True


# ---- fast path: would decoding change this field?


def _is_ordinary(fields: dict[str, Json], checks: dict[str, Callable[[Json], bool]]) -> bool:
    for name, value in fields.items():
        ordinary = checks.get(name)
        if ordinary is None or not ordinary(value):
            return False
    return True


def _is_text(value: Json) -> bool:
    return value.__class__ is str and value != ""


def _is_time(value: Json) -> bool:
    if value.__class__ is not str or len(value) != 20 or value == ZERO_TIME:
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
        return all(
            entry.__class__ is dict and entry.keys() >= needed and _is_ordinary(entry, checks) for entry in value
        )

    return check


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
