"""The schema of a resource as published in OpenAPI: v3 without loss, v2 restricted to what its clients support.

Pure functions from the JSON of an openAPIV3Schema (canonical form) to a schema object. The given schema is not changed;
unmodified parts of it are shared. Properties are sorted by name, as Go encodes a map: generators keep their order.

Follows apiextensions-apiserver pkg/controller/openapi/{builder/builder,v2/conversion}.go and
pkg/apiserver/schema/unfold.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from registry.schema.model import KEEPS_ALL
from registry.schema.structural.structural import (
    find_unsupported,
    is_int_or_string_all_of,
    is_int_or_string_any_of,
    validate_structural,
)

Schema = Mapping[str, Any]
Json = dict[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
V2_PREFIX = "#/definitions/"
V3_PREFIX = "#/components/schemas/"

# Shown by `kubectl explain` for every resource; the words are kube-apiserver's, as recorded.
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert "
    "recognized schemas to the latest internal value, and may reject unrecognized values. More info: "
    f"{_CONVENTIONS}#resources"
)
KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
    "endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
    f"{_CONVENTIONS}#types-kinds"
)
METADATA = f"Standard object's metadata. More info: {_CONVENTIONS}#metadata"
EMBEDDED_API_VERSION = (
    f"apiVersion defines the versioned schema of this representation of an object. More info: {_CONVENTIONS}#resources"
)
EMBEDDED_KIND = (
    f"kind is a string value representing the type of this object. In CamelCase. More info: {_CONVENTIONS}#types-kinds"
)


def published_v3(schema: Schema) -> Json:
    """The schema of a custom resource, with apiVersion, kind and metadata, for OpenAPI v3.

    A schema that is not structural, which definitions that preserve unknown fields may have, is published as an object.
    """
    if schema.get(KEEPS_ALL):
        schema = {word: value for word, value in schema.items() if word != KEEPS_ALL}
        if find_unsupported(schema) is not None or validate_structural(schema, ""):
            return {"type": "object"}
    out = _v3(schema)
    return _native(out, metadata_v3())


def published_v2(schema: Schema) -> Json:
    """The same for OpenAPI v2. A root that preserves unknown fields is published as any object: v2 clients would
    otherwise reject its unknown fields."""
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get(KEEPS_ALL):
        return {"type": "object"}
    out = _v2(schema)
    return _native(out, metadata_v2())


def metadata_v3(description: str = METADATA, kind: str = "ObjectMeta") -> Json:
    # In v3 a $ref must have no siblings.
    return {"description": description, "allOf": [{"$ref": f"{V3_PREFIX}{META}.{kind}"}]}


def metadata_v2(description: str = METADATA, kind: str = "ObjectMeta") -> Json:
    return {"description": description, "$ref": f"{V2_PREFIX}{META}.{kind}"}


def type_meta(api_version: str = API_VERSION, kind: str = KIND) -> Json:
    """The properties apiVersion and kind, with these descriptions."""
    return {
        "apiVersion": {"description": api_version, "type": "string"},
        "kind": {"description": kind, "type": "string"},
    }


def _native(out: Json, metadata: Json) -> Json:
    properties = {**(out.get("properties") or {}), **type_meta(), "metadata": metadata}
    return {**out, "properties": dict(sorted(properties.items()))}


def _v3(schema: Schema) -> Json:
    out = _with_children(schema, _v3)
    if out.get("x-kubernetes-int-or-string"):
        _unfold(out)
    if out.get("x-kubernetes-embedded-resource"):
        _embed(out, metadata_v3())
    return out


def _unfold(out: Json) -> None:
    """Expresses x-kubernetes-int-or-string in plain OpenAPI."""
    if is_int_or_string_any_of(out) or is_int_or_string_all_of(out):
        return
    either: list[Json] = [{"type": "integer"}, {"type": "string"}]
    if out.get("anyOf"):
        out["allOf"] = [{"anyOf": either}, *(out.get("allOf") or ())]
    else:
        out["anyOf"] = either


_NOT_IN_V2 = ("allOf", "anyOf", "oneOf", "not", "nullable", "default")


def _v2(schema: Schema) -> Json:
    out = {word: value for word, value in schema.items() if word not in _NOT_IN_V2}
    preserving = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    nullable = bool(schema.get("nullable"))
    if nullable or preserving:
        # kubectl does not support items or properties without a type, or with unknown fields.
        out.pop("items", None)
        out.pop("properties", None)
    kind = out.get("type")
    if nullable or (kind == "array" and "items" not in out) or (preserving and kind == "object"):
        out.pop("type", None)
    _drop_required_nullable(out)
    out = _with_children(out, _v2)
    if out.get("x-kubernetes-embedded-resource") and not preserving:
        _embed(out, metadata_v2())
    return out


def _drop_required_nullable(out: Json) -> None:
    """In v2 a nullable field cannot be required."""
    needed = out.get("required")
    if not needed:
        return
    properties = out.get("properties") or {}
    additional = out.get("additionalProperties")
    if isinstance(additional, Mapping) and additional.get("nullable"):
        needed = []
    out["required"] = [name for name in needed if not (properties.get(name) or {}).get("nullable")]
    if not out["required"]:
        del out["required"]


def _with_children(schema: Schema, convert: Callable[[Schema], Json]) -> Json:
    """A copy with its structural children converted. The content of junctors is published unchanged."""
    out = dict(schema)
    if isinstance(out.get("items"), Mapping):
        out["items"] = convert(out["items"])
    if isinstance(out.get("additionalProperties"), Mapping):
        out["additionalProperties"] = convert(out["additionalProperties"])
    if out.get("properties"):
        out["properties"] = {name: convert(s) for name, s in sorted(out["properties"].items())}
    return out


def _embed(out: Json, metadata: Json) -> None:
    own = {**type_meta(EMBEDDED_API_VERSION, EMBEDDED_KIND), "metadata": metadata}
    out["properties"] = dict(sorted({**(out.get("properties") or {}), **own}.items()))
    needed = list(out.get("required") or ())
    out["required"] = needed + [name for name in ("kind", "apiVersion") if name not in needed]
