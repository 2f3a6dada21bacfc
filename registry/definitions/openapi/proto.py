"""OpenAPI documents in protobuf; that of v2 is the form that kubectl requests.

    encode_v2(openapi_v2(...))
    encode_v3(openapi_v3_document(...))

The messages are those of gnostic (openapiv2/OpenAPIv2.proto, openapiv3/OpenAPIv3.proto), restricted to the fields that
our documents have; openapi_v2.txt and openapi_v3.txt list them. A line has the number of a field, its name in JSON, and
its type: a message, or one of

    text, flag, integer, double     a scalar
    any                             a value of any type, as YAML text in block style
    []TYPE                          a repeated field
    2/TYPE                          a message whose field 2 has the value: an alternative of a oneof, or a wrapper
    map1/TYPE                       a message with repeated pairs, as field 1, of a name and a value
    x-                              where members go whose names start with x-
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, Final, TypeVar

from registry.codec.wire import encode_delimited, tag, varint
from registry.codec.yaml_encode import NODES, encode_yaml

MEDIA_TYPE_V2: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
MEDIA_TYPE_V3: Final = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
# The media types in Accept: older clients write the version after an @.
ACCEPTED_V2: Final = (MEDIA_TYPE_V2, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
ACCEPTED_V3: Final = (MEDIA_TYPE_V3, "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")

T = TypeVar("T")
# Encodes a value as the field of this number.
Encoder = Callable[[int, Any], bytes]


class NotOpenAPI(Exception):
    """A document of another server has a value of a wrong type."""


def encode_v2(document: Mapping[str, Any]) -> bytes:
    """Raises NotOpenAPI. As in Go, a null in place of a message or a field is the same as nothing."""
    return _V2.encode("Document", document)


def encode_v3(document: Mapping[str, Any]) -> bytes:
    """Encodes a document of v3. Defaults that are not scalars are left out: the message has no form for them."""
    return _V3.encode("Document", document)


class _Messages:
    """The messages that a file lists. `choices` are types that depend on the value: they return the type for one."""

    def __init__(self, file: str, choices: Mapping[str, Callable[[Any], str]]) -> None:
        self._choices = choices
        # The fields of each message by their names in JSON; under "x-" where extensions go.
        self._fields: dict[str, dict[str, tuple[int, Encoder]]] = {}
        for line in resources.files(__package__).joinpath(file).read_text(encoding="utf-8").splitlines():
            if not line.startswith(" "):
                fields = self._fields[line] = {}
                continue
            number, name, *type_ = line.split()
            fields[name] = int(number), self.encoder(*type_ or ["extension"])

    def encode(self, message: str, value: Mapping[str, Any] | None) -> bytes:
        """Encodes the fields that are present, in the order of the JSON."""
        if value is None:
            return b""
        _require(value, dict)
        fields, parts = self._fields[message], []
        for name, v in value.items():
            field = fields.get(name)
            if field is None and name.startswith("x-"):
                field, v = fields.get("x-"), (name, v)
            if field is not None and v is not None:
                parts.append(field[1](field[0], v))
        return b"".join(parts)

    def encoder(self, type_: str) -> Encoder:
        if type_ in _SCALARS:
            return _SCALARS[type_]
        if type_ in self._choices:
            choose, of_type = self._choices[type_], lru_cache(8)(self.encoder)
            return lambda number, value: of_type(choose(value))(number, value)
        if type_.startswith("[]"):
            element = self.encoder(type_.removeprefix("[]"))
            return lambda number, values: b"".join(element(number, value) for value in _require(values, list))
        outer, slash, rest = type_.partition("/")
        if not slash:
            return lambda number, value: encode_delimited(number, self.encode(type_, value))
        field, inner = int(outer.removeprefix("map")), self.encoder(rest)
        if outer.startswith("map"):
            return lambda number, values: encode_delimited(number, _pairs(field, inner, values))
        return lambda number, value: encode_delimited(number, inner(field, value))


def _require(value: Any, type_: type[T]) -> T:
    if not isinstance(value, type_):
        raise NotOpenAPI(f"{type(value).__name__} in place of {type_.__name__}")
    return value


def _pairs(field: int, encode: Encoder, values: Any) -> bytes:
    pairs = _require(values, dict).items()
    return b"".join(encode_delimited(field, _text(1, name) + encode(2, value)) for name, value in pairs)


def _text(number: int, value: Any) -> bytes:
    return encode_delimited(number, _require(value, str).encode("utf-8", "surrogatepass"))


def _flag(number: int, value: Any) -> bytes:
    return tag(number, 0) + varint(_require(value, bool))


def _integer(number: int, value: Any) -> bytes:
    if not 0 <= _require(value, int) < 1 << 63:
        raise NotOpenAPI("an integer out of range")
    return tag(number, 0) + varint(value)


def _double(number: int, value: Any) -> bytes:
    if not isinstance(value, (int, float)) or abs(value) > sys.float_info.max:
        raise NotOpenAPI("no number, or one out of range")
    return tag(number, 1) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False)
    yaml = _short_yaml_of(text) if len(text) <= _SHORT else encode_yaml(value, NODES)
    return encode_delimited(number, encode_delimited(2, yaml))


# The operations of a group share their extensions; this length bounds the size of the cache.
_SHORT: Final = 1000


@lru_cache(1024)
def _short_yaml_of(text: str) -> bytes:
    return encode_yaml(json.loads(text), NODES)


def _extension(number: int, member: tuple[str, Any]) -> bytes:
    return encode_delimited(number, _text(1, member[0]) + _any(2, member[1]))


_SCALARS: Final[Mapping[str, Encoder]] = {
    "text": _text,
    "flag": _flag,
    "integer": _integer,
    "double": _double,
    "any": _any,
    "extension": _extension,
    "empty": lambda number, value: encode_delimited(number, b""),
}


def _scalar(value: Any) -> str:
    """A default, as far as the message has a form for it."""
    match value:
        case bool():
            return "2/flag"
        case int() | float():
            return "1/double"
        case str():
            return "3/text"
    return "empty"


def _place_of(parameter: Any) -> str:
    """The form of a parameter, by where it is."""
    place = _require(parameter, dict).get("in")
    return "1/Body" if place == "body" else "2/3/Query" if place == "query" else "2/4/Path"


_V2: Final = _Messages(
    "openapi_v2.txt",
    {
        "additional": lambda value: "2/flag" if isinstance(value, bool) else "1/Schema",
        # Other servers may have lists of items and types.
        "items": lambda value: "1/[]Schema" if isinstance(value, list) else "1/Schema",
        "parameter": _place_of,
        "types": lambda value: "1/[]text" if isinstance(value, list) else "1/text",
    },
)
_V3: Final = _Messages(
    "openapi_v3.txt",
    {
        "additional": lambda value: "2/flag" if isinstance(value, bool) else "1/reference",
        # A schema with a `$ref` is encoded as the reference alone.
        "reference": lambda value: "2/Reference" if "$ref" in value else "1/Schema",
        "scalar": _scalar,
    },
)
