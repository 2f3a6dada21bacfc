"""The named types of built-in kinds: replaces inline schemas by references to the names of the Go types.

Generators create a class for each named type, so this gives our clients the same classes as kube-apiserver's. The type
of each field is in components.yaml, as published by kube-apiserver (api/openapi-spec/v3); what it publishes beyond our
schemas is in additions.yaml, and descriptions that these lack are in descriptions.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from registry.codec.packaged_yaml import load_file
from registry.definitions.openapi.types import Json
from registry.schema.openapi import META, V3_PREFIX

Schema = Mapping[str, Any]

_METADATA = [{"$ref": f"{V3_PREFIX}{META}.ObjectMeta"}]
_OF_META = frozenset(
    {"Condition", "FieldSelectorRequirement", "GroupResource", "LabelSelector", "LabelSelectorRequirement", "MicroTime",
     "Time"}
)  # fmt: skip


class _Field(NamedTuple):
    """The full name of a field's type, and whether the field has a default if OpenAPI can express it."""

    type: str
    has_default: bool


def with_named_types(name: str, schema: Json, prefix: str) -> tuple[Json, Json]:
    """`schema` of the type `name`, with references in place of nested types; and these types by name.

    `prefix` precedes the names in references. The schema is not changed.
    """
    types: Json = {}
    return _with_references(name, schema, prefix, types), types


def with_all_fields(name: str, schema: Schema) -> Schema:
    """The schema of the type `name` without the keywords (unknown fields, nullable) for which v2 omits fields."""
    return _without(schema, ("x-kubernetes-preserve-unknown-fields", "nullable")) if name in _table() else schema


def _without(value: Any, keywords: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_without(v, keywords) for v in value]
    if not isinstance(value, Mapping):
        return value
    return {k: _without(v, keywords) for k, v in value.items() if k not in keywords}


def _with_references(name: str, schema: Json, prefix: str, types: Json) -> Json:
    schema = _with_descriptions(_with_additions(schema, _additions().get(name, {})), _descriptions().get(name, {}))
    properties = schema.get("properties")
    if not properties:
        return schema
    required = schema.get("required") or ()
    fields = _table().get(name, {})
    replaced = {}
    for field, published in sorted(properties.items()):
        if field in fields:
            published = _reference(published, fields[field], prefix, types)
        elif prefix == V3_PREFIX:
            published = _with_zero(published, is_required=field in required)
        replaced[field] = _present(published, prefix)
    return {**schema, "properties": replaced}


def _with_additions(schema: Json, added: Json) -> Json:
    """Adds the keywords of additions.yaml. Those that are null on properties are kept until `_present` removes them."""
    if not added:
        return schema
    properties = {**schema.get("properties", {})}
    for field, keywords in added.get("properties", {}).items():
        properties[field] = {**properties.get(field, {}), **keywords}
    merged = {**schema, **added, **({"properties": properties} if properties else {})}
    return {keyword: value for keyword, value in merged.items() if value is not None}


def _with_descriptions(schema: Json, texts: Mapping[str, str]) -> Json:
    """Describes the type and the fields that have no description."""
    if not texts:
        return schema
    fields = schema.get("properties", {}).items()
    described = {f: {"description": texts[f], **field} if f in texts else field for f, field in fields}
    text = {"description": texts[""]} if "" in texts else {}
    return {**text, **schema, **({"properties": described} if described else {})}


def _present(schema: Json, prefix: str) -> Json:
    """Removes the null keywords; in v2 also our defaults."""
    return {k: v for k, v in schema.items() if v is not None and (k != "default" or prefix == V3_PREFIX)}


# Go's JSON for a zero field without omitempty.
_ZEROS = {"string": "", "integer": 0, "boolean": False}


def _with_zero(schema: Json, *, is_required: bool) -> Json:
    """The schema of a field with its zero value as the default, if Go always writes the field."""
    if schema.get("allOf") == _METADATA:
        return {**schema, "default": {}}
    zero = _ZEROS.get(schema.get("type") or "") if is_required else None
    return schema if zero is None or "default" in schema else {**schema, "default": zero}


def _reference(schema: Json, field: _Field, prefix: str, types: Json) -> Json:
    """The schema of a field as a reference; for a list or map, that of its items or values is the reference."""
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            inner = _reference(schema[word], field._replace(has_default=False), prefix, types)
            return {**schema, word: _bare({k: v for k, v in inner.items() if k != "description"})}
    if field.type not in types:
        types[field.type] = {}  # so that a recursive type is not expanded again
        types[field.type] = _with_references(field.type, _own(schema), prefix, types)
    beside: Json = {"description": schema["description"]} if "description" in schema else {}
    if prefix != V3_PREFIX:
        return {**beside, "$ref": prefix + field.type}
    if field.has_default:
        beside["default"] = {}
    reference = {"$ref": prefix + field.type}
    return {**beside, "allOf": [reference]} if schema else reference


def _bare(schema: Json) -> Json:
    """Items by reference: v3 requires `allOf` only for a reference with siblings, as fields have."""
    return schema["allOf"][0] if schema.keys() == {"allOf"} else schema


def _own(schema: Json) -> Json:
    """The part of a field's schema that belongs to its type."""
    return {word: value for word, value in schema.items() if word not in ("nullable", "default")}


@cache
def _additions() -> Mapping[str, Json]:
    """`{"io.k8s.api.core.v1.NamespaceStatus": {"properties": {...}}, ...}`."""
    read: dict[str, dict[str, Json]] = load_file(_file("additions.yaml"))
    return {f"{package}.{name}": added for package, types in read.items() for name, added in types.items()}


@cache
def _descriptions() -> Mapping[str, Mapping[str, str]]:
    """`{"io.k8s.api.core.v1.ServicePort": {"": "A port of a Service.", "name": "The name of the port, ..."}, ...}`."""
    read: dict[str, dict[str, dict[str, str]]] = load_file(_file("descriptions.yaml"))
    return {f"{package}.{name}": texts for package, types in read.items() for name, texts in types.items()}


@cache
def _table() -> Mapping[str, Mapping[str, _Field]]:
    """`{"io.k8s.api.core.v1.Namespace": {"spec": _Field("io.k8s.api.core.v1.NamespaceSpec", True), ...}, ...}`."""
    read: dict[str, dict[str, dict[str, str]]] = load_file(_file("components.yaml"))
    return {
        f"{package}.{name}": {field: _field(package, text) for field, text in fields.items()}
        for package, types in read.items()
        for name, fields in types.items()
    }


def _file(name: str) -> Traversable:
    return resources.files(__package__).joinpath(name)


def _field(package: str, text: str) -> _Field:
    name = text.removesuffix("+")
    full = name if "." in name else f"{META if name in _OF_META else package}.{name}"
    return _Field(full, name != text)
