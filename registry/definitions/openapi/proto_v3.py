"""OpenAPI v3 documents in protobuf.

`encode_v3(openapi_v3_document(...))`. The messages are those of gnostic (openapiv3/OpenAPIv3.proto), restricted to the
fields that our documents have. Only scalar defaults are included: the message has no form for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.codec.wire import encode_delimited
from registry.definitions.openapi.proto_fields import (
    Fields,
    Json,
    encode_double,
    encode_flag,
    encode_message,
    encode_named,
    encode_text,
    fields,
)

MEDIA_TYPE_V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
# The media types in Accept: older clients write the version after an @.
ACCEPTED_V3 = (MEDIA_TYPE_V3, "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")


def encode_v3(document: Json) -> bytes:
    return encode_message(_DOCUMENT, document)


# ---- schemas


def _schema(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_SCHEMA, value, 36))


def _schema_or_reference(number: int, value: Json) -> bytes:
    """A schema with a `$ref` is encoded as the reference alone."""
    if "$ref" in value:
        return encode_delimited(number, encode_delimited(2, encode_text(1, value["$ref"])))
    return encode_delimited(number, _schema(1, value))


def _schemas(number: int, value: list[Json]) -> bytes:
    return b"".join(_schema_or_reference(number, v) for v in value)


def _schemas_by_name(number: int, value: Mapping[str, Json]) -> bytes:
    # The value of a pair is field 2, which the encoding of a schema or reference includes.
    pairs = (encode_delimited(1, encode_text(1, name) + _schema_or_reference(2, v)) for name, v in value.items())
    return encode_delimited(number, b"".join(pairs))


def _items(number: int, value: Json) -> bytes:
    return encode_delimited(number, _schema_or_reference(1, value))


def _additional(number: int, value: Any) -> bytes:
    return encode_delimited(
        number, encode_flag(2, value) if isinstance(value, bool) else _schema_or_reference(1, value)
    )


def _default(number: int, value: Any) -> bytes:
    return encode_delimited(number, _scalar(value))


def _scalar(value: Any) -> bytes:
    match value:
        case bool():
            return encode_flag(2, value)
        case int() | float():
            return encode_double(1, value)
        case str():
            return encode_text(3, value)
    return b""


_SCHEMA: Fields = fields(
    "flag: nullable=1 exclusiveMaximum=12 exclusiveMinimum=14 uniqueItems=20",
    "docs: externalDocs=6",
    "any: example=7",
    "text: title=9 pattern=17 type=25 description=34 format=35",
    "double: multipleOf=10 maximum=11 minimum=13",
    "integer: maxLength=15 minLength=16 maxItems=18 minItems=19 maxProperties=21 minProperties=22",
    "texts: required=23",
    "anys: enum=24",
    allOf=(26, _schemas),
    oneOf=(27, _schemas),
    anyOf=(28, _schemas),
    items=(30, _items),
    properties=(31, _schemas_by_name),
    additionalProperties=(32, _additional),
    default=(33, _default),
    **{"not": (29, _schema)},
)


# ---- requests


def _named(number: int, value: Mapping[str, Json], fields: Fields) -> bytes:
    """A message of pairs of a name and a message of `fields`."""
    pairs = (encode_named(1, name, encode_message(fields, v)) for name, v in value.items())
    return encode_delimited(number, b"".join(pairs))


_MEDIA_TYPE: Fields = fields(schema=(1, _schema_or_reference))


def _content(number: int, value: Mapping[str, Json]) -> bytes:
    return _named(number, value, _MEDIA_TYPE)


_PARAMETER: Fields = fields("text: name=1 in=2 description=3", "flag: required=4", schema=(10, _schema_or_reference))


def _parameters(number: int, value: list[Json]) -> bytes:
    return b"".join(encode_delimited(number, encode_delimited(1, encode_message(_PARAMETER, v))) for v in value)


_BODY: Fields = fields("text: description=1", "flag: required=3", content=(2, _content))


def _body(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_delimited(1, encode_message(_BODY, value)))


_RESPONSE: Fields = fields("text: description=1", content=(3, _content))


def _responses(number: int, value: Mapping[str, Json]) -> bytes:
    pairs = (
        encode_named(2, code, encode_delimited(1, encode_message(_RESPONSE, response)))
        for code, response in value.items()
    )
    return encode_delimited(number, b"".join(pairs))


_OPERATION: Fields = fields(
    "texts: tags=1",
    "text: description=3 operationId=5",
    parameters=(6, _parameters),
    requestBody=(7, _body),
    responses=(8, _responses),
)


def _operation(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_OPERATION, value, 13))


_ITEM: Fields = fields(
    get=(4, _operation),
    put=(5, _operation),
    post=(6, _operation),
    delete=(7, _operation),
    patch=(10, _operation),
    parameters=(13, _parameters),
)


def _paths(number: int, value: Mapping[str, Json]) -> bytes:
    return _named(number, value, _ITEM)


_INFO: Fields = fields("text: title=1 version=6")


def _info(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_INFO, value))


_SECURITY_SCHEME: Fields = fields("text: type=1 description=2 name=3 in=4")


def _security_schemes(number: int, value: Mapping[str, Json]) -> bytes:
    pairs = (
        encode_named(1, name, encode_delimited(1, encode_message(_SECURITY_SCHEME, v))) for name, v in value.items()
    )
    return encode_delimited(number, b"".join(pairs))


_COMPONENTS: Fields = fields(schemas=(1, _schemas_by_name), securitySchemes=(7, _security_schemes))


def _components(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_COMPONENTS, value))


_DOCUMENT: Fields = fields("text: openapi=1", info=(2, _info), paths=(4, _paths), components=(5, _components))
