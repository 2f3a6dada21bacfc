"""Decodes JSON into a Go struct, as kube-apiserver does, and encodes it again.

kube-apiserver decodes the built-in kinds into typed structs, with visible effects: a wrong type is rejected with Go's
text, an unknown field is reported and dropped, null is the same as absent, and empty fields may be omitted. A `Struct`
lists the fields of one such struct; `decode` and `encode` do the rest.

The decoded form is a dict of the fields that were given: a key is absent for Go's zero value or nil, but an explicit
empty list or map is kept, because validation distinguishes it from nil. `encode` returns the canonical form, which is
stored and served: fields in the order of the struct, empty `omitempty` fields omitted, the others written with their
zero value.

    Rule = Struct("ValidationRule", (Field("rule", STRING, required=True), Field("message", STRING)))
    decode(Rule, {"rule": "a", "x": 1}).value    == {"rule": "a"}, and unknown == ["x"]
    encode(Rule, {"message": ""})                == {"rule": ""}

Follows encoding/json's decode.go as forked in sigs.k8s.io/json (internal/golang/encoding/json).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from registry.codec.go_text import go_quote
from registry.codec.model import Decoded, Repeated
from registry.codec.sorting import sorted_keys
from registry.codec.structs.base import ROOT, DecodingContext, GoType, Link, RepeatedField, StructDecodeError
from registry.codec.structs.scalars import STRING, GoScalar

# kube-apiserver accepts 10,000 levels. Functions that walk a definition here recurse, and orjson writes at most 254
# levels, so that a more deeply nested definition could not be served.
MAX_JSON_DEPTH = 200


_first = itemgetter(0)


class Pointer(GoType):
    """A pointer: omitted only if nil; an empty text or false is written."""

    by_reference = True

    def __init__(self, element: GoType) -> None:
        self.element, self.go = element, element.go

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        return self.element.decode(value, link, context)

    def merge(self, before: Any, value: Any) -> Any:
        return self.element.merge(before, value)

    def encode(self, value: Any) -> Any:
        return self.element.encode(value)

    def is_empty(self, value: Any) -> bool:
        return value is None


class GoSlice(GoType):
    by_reference = True

    def __init__(self, element: GoType, go: str = "") -> None:
        self.element, self.go = element, go or f"[]{element.go}"

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if type(value) is not list:
            return context.mismatch(value, link, self.go)
        element = self.element
        return [
            element.zero if v is None else element.decode(v, (link, i, None, False), context)
            for i, v in enumerate(value)
        ]

    def merge(self, before: Any, value: Any) -> Any:
        """Merges element by element: Go reuses the elements of the first list."""
        return [self.element.merge(before[i], v) if i < len(before) else v for i, v in enumerate(value)]

    def encode(self, value: Any) -> Any:
        if value is None:
            return None  # nil, in a map or a list
        encode = self.element.encode
        return [encode(v) for v in value]


class GoMap(GoType):
    by_reference = True

    def __init__(self, element: GoType, go: str = "") -> None:
        self.element, self.go = element, go or f"map[string]{element.go}"

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if not isinstance(value, dict):
            return context.mismatch(value, link, self.go)
        element, out = self.element, {}
        is_plain = type(value) is dict and not context.is_reencoded
        for k, v in value.items() if is_plain else _members(value, context):
            step = (link, k, None, False)
            if k in out:
                context.note(step, RepeatedField)
            out[k] = element.zero if v is None else element.decode(v, step, context)
        return out

    def merge(self, before: Any, value: Any) -> Any:
        return {**before, **value}

    def encode(self, value: Any) -> Any:
        encode = self.element.encode
        return {k: encode(value[k]) for k in sorted_keys(value)}


class OneOf(GoType):
    """A type with a custom decoder, which depends on the JSON type of the value.

    Such decoders drop unknown fields below them silently, and hide nested structs in error texts.
    """

    by_reference = True

    def __init__(
        self, go: str, decode: Callable[[Any, Link, DecodingContext], Any], encode: Callable[[Any], Any]
    ) -> None:
        self.go, self._decode, self._encode = go, decode, encode

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        # An error ends the decoding, so that the context need not be restored then.
        unknown, fault = context.unknown, context.fault
        context.unknown = context.fault = None
        value = plain(value) if context.has_repeated else value
        decoded = context.finish(self._decode(value, (link[0], link[1], link[2], True), context))
        context.unknown, context.fault = unknown, fault
        return decoded

    def encode(self, value: Any) -> Any:
        return self._encode(value)

    def is_empty(self, value: Any) -> bool:
        return value is None or value == []


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct. A `required` one has no omitempty and is always written.

    One of an embedded struct is `embedded` in `RuleWithOperations.Rule`, which errors show in its path.
    """

    name: str
    type: GoType
    required: bool = False
    embedded: str = ""


class Struct(GoType):
    def __init__(self, name: str, fields: tuple[Field, ...] = (), package: str = "v1") -> None:
        self.name, self.go = name, f"{package}.{name}"
        self.extend(fields)

    def extend(self, fields: tuple[Field, ...]) -> None:
        """Sets the fields; separate from the constructor because of recursive structs."""
        self.fields = fields
        self._types = {f.name: f.type for f in fields}
        # By field: the JSON type of those that are decoded to themselves.
        self._scalars = {f.name: t.json_type for f in fields if type(t := _pointed_to(f.type)) is GoScalar}
        self._order = {f.name: position for position, f in enumerate(fields)}
        self._required = [f for f in fields if f.required]
        self._encoders = {f.name: _encoder(f.type) for f in fields}
        self._shown = {f.name: f"{f.embedded}.{f.name}" for f in fields if f.embedded}

    @property
    def zero(self) -> Any:
        return {}

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if not isinstance(value, dict):
            return context.mismatch(value, link, self.go)
        types, scalars, name = self._types, self._scalars, self.name
        out: dict[str, Any] = {}
        # The usual case without a call: a definition has thousands of structs.
        is_plain = type(value) is dict and not context.is_reencoded
        seen = out if is_plain else {}  # of several members the first may be null
        for key, v in value.items() if is_plain else _members(value, context):
            if type(v) is scalars.get(key) and key not in seen:
                out[key] = seen[key] = v
                continue
            field_type, step = types.get(key), (link, key, name, False)
            if field_type is None:
                context.note(step)
                continue
            is_repeated = key in out
            if key in seen:
                context.note(step, RepeatedField)
            if not is_plain:
                seen[key] = v
            if v is not None:
                if key in self._shown:
                    step = (link, self._shown[key], name, False)
                decoded = field_type.decode(v, step, context)
                if decoded is not None:
                    out[key] = field_type.merge(out[key], decoded) if is_repeated else decoded
            elif is_repeated and field_type.by_reference:
                del out[key]
        return out

    def merge(self, before: Any, value: Any) -> Any:
        types = self._types
        return {**before, **{k: types[k].merge(before[k], v) if k in before else v for k, v in value.items()}}

    def encode(self, value: Any) -> Any:
        out = {}
        if not self._required:  # a schema has forty fields, few of which are present
            encoders = self._encoders
            for key in sorted(value, key=self._order.__getitem__):
                v = value[key]
                if v is not None:
                    is_empty, encode = encoders[key]
                    if v if is_empty is None else not is_empty(v):
                        out[key] = v if encode is None else encode(v)
            return out
        for field in self.fields:
            v = value.get(field.name)
            if v is None:
                if field.required:
                    zero = field.type.zero
                    out[field.name] = field.type.encode(zero) if zero is not None else None
            elif field.required or not field.type.is_empty(v):
                out[field.name] = field.type.encode(v)
        return out

    def is_empty(self, value: Any) -> bool:
        return False  # Go never omits a struct


def _encoder(type_: GoType) -> tuple[Callable[[Any], bool] | None, Callable[[Any], Any] | None]:
    """Returns `is_empty` and `encode` of a type; None for what `GoType` does itself. Most fields are scalars, which so
    are encoded without a call."""
    is_empty = None if type(type_).is_empty is GoType.is_empty else type_.is_empty
    element = _pointed_to(type_)
    return is_empty, None if type(element).encode is GoType.encode else element.encode


def _pointed_to(type_: GoType) -> GoType:
    while isinstance(type_, Pointer):
        type_ = type_.element
    return type_


def _members(value: dict[str, Any], context: DecodingContext) -> Iterable[tuple[str, Any]]:
    """The members of an object in document order, including repeated ones."""
    if context.is_reencoded:
        return sorted(value.items(), key=_first)
    if type(value) is not Repeated:
        return value.items()
    keys = {key for key, _ in value.pairs}
    return [*value.pairs, *((key, v) for key, v in value.items() if key not in keys)]


def plain(value: Any) -> Any:
    """The value with only the last of repeated members."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    return [plain(v) for v in value] if type(value) is list else value


STRINGS = GoSlice(STRING)


@dataclass(frozen=True, slots=True)
class Typed:
    """The decoded value, and the paths of unknown and repeated fields in document order."""

    value: dict[str, Any]
    unknown: list[str]


def decode(struct: Struct, body: Any) -> Typed:
    """`body` as `struct`; null is the zero value. Raises StructDecodeError with Go's text. `body` is not changed."""
    is_deep, has_repeated = _survey(body, MAX_JSON_DEPTH)
    if is_deep:
        raise StructDecodeError("exceeded max depth")
    unknown: list[str] = []
    context = DecodingContext(unknown, has_repeated=has_repeated)
    return Typed(context.finish({} if body is None else struct.decode(body, ROOT, context)), unknown)


def encode(struct: Struct, value: dict[str, Any]) -> dict[str, Any]:
    """The canonical form of a decoded value; encoding it again does not change it."""
    encoded: dict[str, Any] = struct.encode(value)
    return encoded


def zero_members(struct: Struct) -> dict[str, Any]:
    """The members that a struct always has, with their zero values, except those of every object."""
    return {name: zero for name, zero in struct.encode({}).items() if name not in ("apiVersion", "kind", "metadata")}


def _survey(value: Any, limit: int) -> tuple[bool, bool]:
    """Returns whether JSON is nested more than `limit` levels deep, and whether an object has members of the same name,
    if it is not that deep. Does not recurse."""
    level, has_repeated = [value], False
    for _ in range(limit):
        below: list[Any] = []
        for v in level:
            if isinstance(v, dict):
                below.extend(v.values())
                if type(v) is not dict:
                    has_repeated = True
            elif type(v) is list:
                below.extend(v)
        if not below:
            return False, has_repeated
        level = below
    return any(isinstance(v, dict | list) for v in level), has_repeated


# -- configuration files in Kubernetes' formats
def decode_file(struct: Struct, file: Decoded, api_versions: Sequence[str]) -> dict[str, Any]:
    """Returns the object in a file, whose kind is the name of `struct`. Raises StructDecodeError, for duplicate
    and unknown fields too, as apimachinery's serializer does (EnableStrict)."""
    head = file.value if isinstance(file.value, dict) else {}
    if head.get("kind") != struct.name or head.get("apiVersion") not in api_versions:
        raise StructDecodeError(f"must be of kind {struct.name} and apiVersion {api_versions[0]}")
    typed = decode(struct, file.value)
    if faults := [*file.strict_errors(), *map(_fault, typed.unknown)]:
        raise StructDecodeError(f"strict decoding error: {', '.join(faults)}")
    return typed.value


def _fault(path: str) -> str:
    return f"{'duplicate' if isinstance(path, RepeatedField) else 'unknown'} field {go_quote(path)}"
