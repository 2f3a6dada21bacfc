"""The Go structs of apiextensions.k8s.io/v1, which apiextensions_v1.txt declares, and the types that decode themselves.

Follows apiextensions-apiserver pkg/apis/apiextensions/v1/{types,types_jsonschema,marshal}.go.
"""

from __future__ import annotations

from typing import Any

from registry.codec.structs.base import DecodingContext, Link, StructDecodeError
from registry.codec.structs.declarations import read_structs
from registry.codec.structs.meta import METAV1
from registry.codec.structs.structs import STRINGS, GoSlice, OneOf


def _schema_or_bool(value: Any, link: Link, context: DecodingContext) -> Any:
    if type(value) is dict:
        return JSONSchemaProps.decode(value, link, context)
    if type(value) is bool:
        return value
    raise StructDecodeError("boolean or JSON schema expected")


def _schema_or_schemas(value: Any, link: Link, context: DecodingContext) -> Any:
    if type(value) is dict:
        return JSONSchemaProps.decode(value, link, context)
    if type(value) is list:
        return GoSlice(JSONSchemaProps).decode(value, link, context)
    return []  # anything else counts as no schema at all


def _schema_or_strings(value: Any, link: Link, context: DecodingContext) -> Any:
    if type(value) is dict:
        return JSONSchemaProps.decode(value, link, context)
    if type(value) is list:
        return STRINGS.decode(value, link, context)
    return []


def _encode_schema_or(value: Any) -> Any:
    if type(value) is dict:
        return JSONSchemaProps.encode(value)
    if type(value) is list:
        return [JSONSchemaProps.encode(v) if type(v) is dict else v for v in value] or None
    return value


V1 = read_structs(
    __package__,
    "apiextensions_v1.txt",
    {
        **METAV1,
        "JSONSchemaPropsOrBool": OneOf("v1.JSONSchemaPropsOrBool", _schema_or_bool, _encode_schema_or),
        "JSONSchemaPropsOrArray": OneOf("v1.JSONSchemaPropsOrArray", _schema_or_schemas, _encode_schema_or),
        "JSONSchemaPropsOrStringArray": OneOf("v1.JSONSchemaPropsOrStringArray", _schema_or_strings, _encode_schema_or),
    },
)
CustomResourceDefinition = V1["CustomResourceDefinition"]
JSONSchemaProps = V1["JSONSchemaProps"]
Spec = V1["CustomResourceDefinitionSpec"]
Version = V1["CustomResourceDefinitionVersion"]
Validation = V1["CustomResourceValidation"]
Subresources = V1["CustomResourceSubresources"]
Column = V1["CustomResourceColumnDefinition"]
SelectableField = V1["SelectableField"]
Names = V1["CustomResourceDefinitionNames"]
