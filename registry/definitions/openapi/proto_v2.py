"""The OpenAPI v2 document in protobuf, the form that kubectl requests.

`encode_v2(openapi_v2(...))`. The messages are those of gnostic (openapiv2/OpenAPIv2.proto), restricted to the fields
that our documents have. Values of any type are YAML text in block style.
"""

from __future__ import annotations

from typing import Any

from registry.codec.wire import encode_delimited
from registry.definitions.openapi.proto_fields import (
    Fields,
    Json,
    encode_flag,
    encode_message,
    encode_named,
    encode_text,
    encode_texts,
    fields,
)

MEDIA_TYPE_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# The media types in Accept: older clients write the version after an @.
ACCEPTED_V2 = (MEDIA_TYPE_V2, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")


def encode_v2(document: Json) -> bytes:
    return encode_message(_DOCUMENT, document)


# ---- schemas


def _schema(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_SCHEMA, value, 31))


def _schemas_by_name(number: int, value: Json) -> bytes:
    return encode_delimited(
        number, b"".join(encode_named(1, name, encode_message(_SCHEMA, v, 31)) for name, v in value.items())
    )


def _additional(number: int, value: Any) -> bytes:
    return encode_delimited(number, encode_flag(2, value) if isinstance(value, bool) else _schema(1, value))


def _items(number: int, value: Json) -> bytes:
    return encode_delimited(number, _schema(1, value))


def _type(number: int, value: str) -> bytes:
    return encode_delimited(number, encode_text(1, value))


_SCHEMA: Fields = fields(
    "text: $ref=1 format=2 title=3 description=4 pattern=13",
    "any: default=5 example=30",
    "double: multipleOf=6 maximum=7 minimum=9",
    "flag: exclusiveMaximum=8 exclusiveMinimum=10 uniqueItems=16",
    "integer: maxLength=11 minLength=12 maxItems=14 minItems=15 maxProperties=17 minProperties=18",
    "texts: required=19",
    "anys: enum=20",
    "docs: externalDocs=29",
    additionalProperties=(21, _additional),
    type=(22, _type),
    items=(23, _items),
    properties=(25, _schemas_by_name),
)


# ---- requests

_BODY: Fields = fields("text: description=1 name=2 in=3", "flag: required=4", schema=(5, _schema))
_QUERY: Fields = fields("flag: required=1 uniqueItems=20", "text: in=2 description=3 name=4 type=6")
_PATH: Fields = fields("flag: required=1 uniqueItems=19", "text: in=2 description=3 name=4 type=5")


def _parameters(number: int, value: list[Json]) -> bytes:
    return b"".join(encode_delimited(number, encode_delimited(1, _parameter(v))) for v in value)


def _parameter(value: Json) -> bytes:
    if value["in"] == "body":
        return encode_delimited(1, encode_message(_BODY, value))
    if value["in"] == "query":
        return encode_delimited(2, encode_delimited(3, encode_message(_QUERY, value)))
    return encode_delimited(2, encode_delimited(4, encode_message(_PATH, value)))


def _answer_schema(number: int, value: Json) -> bytes:
    return encode_delimited(number, _schema(1, value))


_RESPONSE: Fields = fields("text: description=1", schema=(2, _answer_schema))


def _responses(number: int, value: Json) -> bytes:
    return encode_delimited(
        number,
        b"".join(encode_named(1, code, encode_delimited(1, encode_message(_RESPONSE, v))) for code, v in value.items()),
    )


_OPERATION: Fields = fields(
    "texts: tags=1 produces=6 consumes=7 schemes=10",
    "text: description=3 operationId=5",
    parameters=(8, _parameters),
    responses=(9, _responses),
)


def _operation(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_OPERATION, value, 13))


_ITEM: Fields = fields(
    get=(2, _operation),
    put=(3, _operation),
    post=(4, _operation),
    delete=(5, _operation),
    patch=(8, _operation),
    parameters=(9, _parameters),
)


def _paths(number: int, value: Json) -> bytes:
    return encode_delimited(
        number, b"".join(encode_named(2, path, encode_message(_ITEM, item)) for path, item in value.items())
    )


_INFO: Fields = fields("text: title=1 version=2")


def _info(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_INFO, value))


def _security(number: int, value: list[Json]) -> bytes:
    """One message for each alternative: the names of schemes, each with its scopes."""
    return b"".join(
        encode_delimited(
            number, b"".join(encode_named(1, name, encode_texts(1, scopes)) for name, scopes in one.items())
        )
        for one in value
    )


_API_KEY: Fields = fields("text: type=1 name=2 in=3 description=4")


def _security_definitions(number: int, value: Json) -> bytes:
    return encode_delimited(
        number,
        b"".join(encode_named(1, name, encode_delimited(2, encode_message(_API_KEY, v))) for name, v in value.items()),
    )


_DOCUMENT: Fields = fields(
    "text: swagger=1",
    info=(2, _info),
    paths=(8, _paths),
    definitions=(9, _schemas_by_name),
    security=(12, _security),
    securityDefinitions=(13, _security_definitions),
)
