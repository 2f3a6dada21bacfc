"""The OpenAPI v2 document in protobuf, which is how kubectl asks for it.

`encode_v2(openapi_v2(...))`. The messages are those of gnostic (openapiv2/OpenAPIv2.proto); only the fields that our
documents have are here. Values of any type stand as YAML text in it, in block style.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from registry.codec.wire import encode_delimited, tag, varint
from registry.codec.yaml_encode import encode_yaml

Json = Mapping[str, Any]
Encoder = Callable[[int, Any], bytes]

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients put into Accept: older ones write the version behind an @.
ACCEPTED = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")


def encode_v2(document: Json) -> bytes:
    return _message(_DOCUMENT, document)


def _message(fields: Mapping[str, tuple[int, Encoder]], value: Json, extensions: int = 0) -> bytes:
    """A message of the fields that are there; what begins with x- goes into the field `extensions`."""
    parts = []
    for name, v in value.items():
        field = fields.get(name)
        if field is not None:
            parts.append(field[1](field[0], v))
        elif extensions and name.startswith("x-"):
            parts.append(encode_delimited(extensions, _text(1, name) + _any(2, v)))
    return b"".join(parts)


def _text(number: int, value: str) -> bytes:
    return encode_delimited(number, value.encode("utf-8", "surrogatepass"))


def _texts(number: int, value: list[str]) -> bytes:
    return b"".join(_text(number, v) for v in value)


def _flag(number: int, value: bool) -> bytes:
    return tag(number, 0) + varint(1 if value else 0)


def _integer(number: int, value: int) -> bytes:
    return tag(number, 0) + varint(value)


def _double(number: int, value: float) -> bytes:
    return tag(number, 1) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False)
    yaml = _short_yaml_of(text) if len(text) <= _SHORT else encode_yaml(value)
    return encode_delimited(number, encode_delimited(2, yaml))


# The extensions of a group's operations are the same; the length bounds what the cache may hold.
_SHORT: Final = 1000


@lru_cache(1024)
def _short_yaml_of(text: str) -> bytes:
    return encode_yaml(json.loads(text))


def _anys(number: int, value: list[Any]) -> bytes:
    return b"".join(_any(number, v) for v in value)


def _encode_named(number: int, name: str, value: bytes) -> bytes:
    return encode_delimited(number, _text(1, name) + encode_delimited(2, value))


# ---- schemas


def _schema(number: int, value: Json) -> bytes:
    return encode_delimited(number, _message(_SCHEMA, value, 31))


def _schemas_by_name(number: int, value: Json) -> bytes:
    return encode_delimited(
        number, b"".join(_encode_named(1, name, _message(_SCHEMA, v, 31)) for name, v in value.items())
    )


def _additional(number: int, value: Any) -> bytes:
    return encode_delimited(number, _flag(2, value) if isinstance(value, bool) else _schema(1, value))


def _items(number: int, value: Json) -> bytes:
    return encode_delimited(number, _schema(1, value))


def _type(number: int, value: str) -> bytes:
    return encode_delimited(number, _text(1, value))


def _external_docs(number: int, value: Json) -> bytes:
    return encode_delimited(number, _message({"description": (1, _text), "url": (2, _text)}, value))


_SCHEMA: Mapping[str, tuple[int, Encoder]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _any),
    "multipleOf": (6, _double),
    "maximum": (7, _double),
    "exclusiveMaximum": (8, _flag),
    "minimum": (9, _double),
    "exclusiveMinimum": (10, _flag),
    "maxLength": (11, _integer),
    "minLength": (12, _integer),
    "pattern": (13, _text),
    "maxItems": (14, _integer),
    "minItems": (15, _integer),
    "uniqueItems": (16, _flag),
    "maxProperties": (17, _integer),
    "minProperties": (18, _integer),
    "required": (19, _texts),
    "enum": (20, _anys),
    "additionalProperties": (21, _additional),
    "type": (22, _type),
    "items": (23, _items),
    "properties": (25, _schemas_by_name),
    "externalDocs": (29, _external_docs),
    "example": (30, _any),
}


# ---- requests

_BODY: Mapping[str, tuple[int, Encoder]] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, _schema),
}
_QUERY: Mapping[str, tuple[int, Encoder]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
    "uniqueItems": (20, _flag),
}
_PATH: Mapping[str, tuple[int, Encoder]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "uniqueItems": (19, _flag),
}


def _parameters(number: int, value: list[Json]) -> bytes:
    return b"".join(encode_delimited(number, encode_delimited(1, _parameter(v))) for v in value)


def _parameter(value: Json) -> bytes:
    if value["in"] == "body":
        return encode_delimited(1, _message(_BODY, value))
    if value["in"] == "query":
        return encode_delimited(2, encode_delimited(3, _message(_QUERY, value)))
    return encode_delimited(2, encode_delimited(4, _message(_PATH, value)))


def _answer_schema(number: int, value: Json) -> bytes:
    return encode_delimited(number, _schema(1, value))


_RESPONSE: Mapping[str, tuple[int, Encoder]] = {"description": (1, _text), "schema": (2, _answer_schema)}


def _responses(number: int, value: Json) -> bytes:
    return encode_delimited(
        number,
        b"".join(_encode_named(1, code, encode_delimited(1, _message(_RESPONSE, v))) for code, v in value.items()),
    )


_OPERATION: Mapping[str, tuple[int, Encoder]] = {
    "tags": (1, _texts),
    "description": (3, _text),
    "operationId": (5, _text),
    "produces": (6, _texts),
    "consumes": (7, _texts),
    "parameters": (8, _parameters),
    "responses": (9, _responses),
    "schemes": (10, _texts),
}


def _operation(number: int, value: Json) -> bytes:
    return encode_delimited(number, _message(_OPERATION, value, 13))


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
        number, b"".join(_encode_named(2, path, _message(_ITEM, item)) for path, item in value.items())
    )


def _info(number: int, value: Json) -> bytes:
    return encode_delimited(number, _message({"title": (1, _text), "version": (2, _text)}, value))


def _security(number: int, value: list[Json]) -> bytes:
    """One message for each alternative: the names of schemes, with the scopes that each is used with."""
    return b"".join(
        encode_delimited(number, b"".join(_encode_named(1, name, _texts(1, scopes)) for name, scopes in one.items()))
        for one in value
    )


_API_KEY: Mapping[str, tuple[int, Encoder]] = {
    "type": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "description": (4, _text),
}


def _security_definitions(number: int, value: Json) -> bytes:
    return encode_delimited(
        number,
        b"".join(_encode_named(1, name, encode_delimited(2, _message(_API_KEY, v))) for name, v in value.items()),
    )


_DOCUMENT: Mapping[str, tuple[int, Encoder]] = {
    "swagger": (1, _text),
    "info": (2, _info),
    "paths": (8, _paths),
    "definitions": (9, _schemas_by_name),
    "security": (12, _security),
    "securityDefinitions": (13, _security_definitions),
}
