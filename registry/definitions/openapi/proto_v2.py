"""The OpenAPI v2 document in protobuf, the form that kubectl requests.

`encode_v2(openapi_v2(...))`. The messages are those of gnostic (openapiv2/OpenAPIv2.proto), restricted to the fields
that our documents have. Values of any type are YAML text in block style.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.codec.wire import encode_delimited
from registry.definitions.openapi.proto_fields import (
    Encoder,
    Json,
    encode_any,
    encode_anys,
    encode_double,
    encode_external_docs,
    encode_flag,
    encode_integer,
    encode_message,
    encode_named,
    encode_text,
    encode_texts,
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


_SCHEMA: Mapping[str, tuple[int, Encoder]] = {
    "$ref": (1, encode_text),
    "format": (2, encode_text),
    "title": (3, encode_text),
    "description": (4, encode_text),
    "default": (5, encode_any),
    "multipleOf": (6, encode_double),
    "maximum": (7, encode_double),
    "exclusiveMaximum": (8, encode_flag),
    "minimum": (9, encode_double),
    "exclusiveMinimum": (10, encode_flag),
    "maxLength": (11, encode_integer),
    "minLength": (12, encode_integer),
    "pattern": (13, encode_text),
    "maxItems": (14, encode_integer),
    "minItems": (15, encode_integer),
    "uniqueItems": (16, encode_flag),
    "maxProperties": (17, encode_integer),
    "minProperties": (18, encode_integer),
    "required": (19, encode_texts),
    "enum": (20, encode_anys),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _items),
    "properties": (25, _schemas_by_name),
    "externalDocs": (29, encode_external_docs),
    "example": (30, encode_any),
}


# ---- requests

_BODY: Mapping[str, tuple[int, Encoder]] = {
    "description": (1, encode_text),
    "name": (2, encode_text),
    "in": (3, encode_text),
    "required": (4, encode_flag),
    "schema": (5, _schema),
}
_QUERY: Mapping[str, tuple[int, Encoder]] = {
    "required": (1, encode_flag),
    "in": (2, encode_text),
    "description": (3, encode_text),
    "name": (4, encode_text),
    "type": (6, encode_text),
    "uniqueItems": (20, encode_flag),
}
_PATH: Mapping[str, tuple[int, Encoder]] = {
    "required": (1, encode_flag),
    "in": (2, encode_text),
    "description": (3, encode_text),
    "name": (4, encode_text),
    "type": (5, encode_text),
    "uniqueItems": (19, encode_flag),
}


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


_RESPONSE: Mapping[str, tuple[int, Encoder]] = {"description": (1, encode_text), "schema": (2, _answer_schema)}


def _responses(number: int, value: Json) -> bytes:
    return encode_delimited(
        number,
        b"".join(encode_named(1, code, encode_delimited(1, encode_message(_RESPONSE, v))) for code, v in value.items()),
    )


_OPERATION: Mapping[str, tuple[int, Encoder]] = {
    "tags": (1, encode_texts),
    "description": (3, encode_text),
    "operationId": (5, encode_text),
    "produces": (6, encode_texts),
    "consumes": (7, encode_texts),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
    "schemes": (10, encode_texts),
}


def _operation(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message(_OPERATION, value, 13))


_ITEM: Mapping[str, tuple[int, Encoder]] = {
    "get": (2, _operation),
    "put": (3, _operation),
    "post": (4, _operation),
    "delete": (5, _operation),
    "patch": (8, _operation),
    "parameters": (9, _parameters),
}


def _paths(number: int, value: Json) -> bytes:
    return encode_delimited(
        number, b"".join(encode_named(2, path, encode_message(_ITEM, item)) for path, item in value.items())
    )


def _info(number: int, value: Json) -> bytes:
    return encode_delimited(number, encode_message({"title": (1, encode_text), "version": (2, encode_text)}, value))


def _security(number: int, value: list[Json]) -> bytes:
    """One message for each alternative: the names of schemes, each with its scopes."""
    return b"".join(
        encode_delimited(
            number, b"".join(encode_named(1, name, encode_texts(1, scopes)) for name, scopes in one.items())
        )
        for one in value
    )


_API_KEY: Mapping[str, tuple[int, Encoder]] = {
    "type": (1, encode_text),
    "name": (2, encode_text),
    "in": (3, encode_text),
    "description": (4, encode_text),
}


def _security_definitions(number: int, value: Json) -> bytes:
    return encode_delimited(
        number,
        b"".join(encode_named(1, name, encode_delimited(2, encode_message(_API_KEY, v))) for name, v in value.items()),
    )


_DOCUMENT: Mapping[str, tuple[int, Encoder]] = {
    "swagger": (1, encode_text),
    "info": (2, _info),
    "paths": (8, _paths),
    "definitions": (9, _schemas_by_name),
    "security": (12, _security),
    "securityDefinitions": (13, _security_definitions),
}
