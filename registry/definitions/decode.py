"""Decoding of CustomResourceDefinitions from the JSON of a request to the decoded and the stored form.

`decode_definition` returns the decoded form, on which defaulting, strategy and validation work; `canonical` returns the
stored form. The decoded form distinguishes `enum: []` from an absent enum, as validation requires; the canonical form
does not. The canonical form is a valid decoded form: a stored definition need not be decoded again.
`without_empty_fields` is equal to the canonical form but for the order of fields, which texts of stored objects sort.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from registry.codec.structs import structs as typed
from registry.codec.structs.base import StructDecodeError
from registry.definitions import types

__all__ = ["StructDecodeError", "canonical", "decode_definition", "without_empty_fields"]

Definition = dict[str, Any]

# Empty fields in the text of a schema: its numbers are pointers, for which 0 is not empty. And two fields whose parts
# are encoded in ways of their own.
_EMPTY: Final = re.compile(rb':(?:""|false|null|\[\]|\{\})')
_EMPTY_DEFAULT: Final = re.compile(b'"default"' + _EMPTY.pattern)
_SPECIAL: Final = re.compile(rb'"(?:x-kubernetes-validations|dependencies)":')

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"


def decode_definition(body: object) -> typed.Typed:
    """The decoded form of `body`, which may be any JSON and is not changed; null is an empty definition. And the paths
    of dropped fields, such as `spec.versions[0].served2`, in document order.

    Sets kind and apiVersion, which the caller must have validated. Raises StructDecodeError with Go's text; the caller
    adds the prefix `CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: `.
    """
    decoded = typed.decode(types.CustomResourceDefinition, body)
    decoded.value["kind"] = KIND
    decoded.value["apiVersion"] = API_VERSION
    return decoded


def canonical(definition: Definition) -> Definition:
    """The stored and served form of a decoded definition, in the order of the Go struct."""
    encoded = typed.encode(types.CustomResourceDefinition, definition)
    conversion = encoded["spec"].get("conversion") or {}
    webhook = conversion.get("webhook")
    if webhook is not None and webhook.get("clientConfig") is None and webhook["conversionReviewVersions"] is None:
        del conversion["webhook"]  # kube-apiserver's internal form drops an empty webhook
    return encoded


def without_empty_fields(definition: Definition) -> Definition:
    """Equal to `canonical`, in less time: most schemas, by far the largest part, have no empty fields."""
    spec = definition.get("spec") or {}
    versions = spec.get("versions") or ()
    schemas = {i: schema for i, v in enumerate(versions) if (schema := (v.get("schema") or {}).get("openAPIV3Schema"))}
    rest = [{**v, "schema": None} if i in schemas else v for i, v in enumerate(versions)]
    encoded = canonical({**definition, "spec": {**spec, "versions": rest}} if schemas else definition)
    for i, schema in schemas.items():
        encoded["spec"]["versions"][i]["schema"] = {"openAPIV3Schema": _without_empty_fields(schema)}
    return encoded


def _without_empty_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """Looks at spec and status one by one: one of them may have empty fields."""
    properties, struct = schema.get("properties"), types.JSONSchemaProps
    if not properties:
        return typed.encode(struct, schema)
    parts = {name: part if _is_full(part) else typed.encode(struct, part) for name, part in properties.items()}
    return {**typed.encode(struct, {**schema, "properties": None}), "properties": parts}


def _is_full(schema: dict[str, Any]) -> bool:
    """Whether a decoded schema certainly has no empty fields."""
    try:
        text = orjson.dumps(schema)
    except TypeError:  # integers beyond 64 bits, lone surrogates, many levels
        return False
    if _SPECIAL.search(text) is not None:
        return False
    # Defaults may be anything. What looks like an empty field within a text only costs time.
    return _EMPTY.search(text) is None or len(_EMPTY.findall(text)) == len(_EMPTY_DEFAULT.findall(text))
