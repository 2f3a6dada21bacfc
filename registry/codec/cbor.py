"""CBOR as in Kubernetes: values without a JSON form are rejected, strings are encoded as byte strings.

    decode_cbor(b"\\xd9\\xd9\\xf7\\xa1aa\\x01").value    # {"a": 1}
    encode_cbor({"a": 1})                           # begins with the tag of self-described CBOR

Follows apimachinery pkg/runtime/serializer/cbor (internal/modes/{decode,encode}.go). The library cbor2 parses and
writes the format; Python types for tags are never constructed.
"""

from __future__ import annotations

import base64
import datetime
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

import cbor2

from registry.codec.binary_fields import binary_members, tag_bytes
from registry.codec.go_time import TimeError, canonical_time
from registry.codec.json_encode import count_members
from registry.codec.model import MAX_CONTAINERS, CborError, Decoded, TooManyValues
from registry.codec.protobuf.messages import kind_key
from registry.codec.sorting import sorted_keys

Json = Any

_SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
# Deeper than any schema. Decoding recurses, with two frames of Python for each level.
_MAX_DEPTH: Final = 300
_INT_64: Final = 1 << 63
_BYTES, _ARRAY, _MAP = 0x40, 0x80, 0xA0
# The library encodes these in some ten milliseconds, in which nothing else runs.
_MEMBERS_AT_ONCE: Final = 2_000
# The first bytes of arrays and maps; continued characters of UTF-8 are among them.
_CONTAINERS: Final = bytes(range(0x80, 0xC0))


def decode_cbor(data: bytes) -> Decoded:
    """Decodes CBOR. Raises CborError for invalid CBOR and for values without a JSON form; TooManyValues."""
    if _has_more_containers(data, MAX_CONTAINERS):
        raise TooManyValues(MAX_CONTAINERS)
    try:
        decoder = cbor2.CBORDecoder(
            _Pieces(data),
            semantic_decoders=_SEMANTIC,
            tag_hook=lambda tag, _: tag.value,
            max_depth=_MAX_DEPTH,
            allow_duplicate_keys=False,
            strict_hashable_types=True,
        )
        value = decoder.decode()
        _require_end(decoder)
        return Decoded(_plain(value))
    except CborError:
        raise
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise CborError(f"cbor: {_reason(error)}") from error


def _has_more_containers(data: bytes, limit: int) -> bool:
    """Whether there are more than `limit` arrays and maps. An item follows the head of the one that contains it, so
    reading one head after the other is enough (RFC 8949, section 3)."""
    if len(data) - len(data.translate(None, _CONTAINERS)) <= limit:
        return False
    position = count = 0
    while position < len(data):
        kind, length = divmod(data[position], 32)
        position += 1
        if 24 <= length <= 27:
            size = 1 << (length - 24)
            length = int.from_bytes(data[position : position + size])
            position += size
        if kind in (2, 3) and length != 31:  # a string of known length
            position += length
        elif kind in (4, 5):
            count += 1
            if count > limit:
                return True
    return False


class _Pieces(io.BytesIO):
    """Bytes that the decoder, which is C, reads by some kilobytes: other threads run only while this is called."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size)


def _require_end(decoder: cbor2.CBORDecoder) -> None:
    try:
        decoder.read(1)
    except cbor2.CBORDecodeEOF:
        return
    raise CborError("cbor: there are bytes after the data item")


def _reason(error: BaseException) -> str:
    cause = error.__cause__
    if isinstance(cause, CborError):
        return str(cause).removeprefix("cbor: ")
    if isinstance(error, cbor2.CBORDecodeEOF):
        return "unexpected EOF"
    return "duplicate map key" if "uplicate" in str(error) else "not well-formed, or of a type that is not allowed"


def _plain(value: Any) -> Json:
    """The value with strings in place of byte strings."""
    try:
        return _PLAIN[type(value)](value)
    except KeyError:
        raise CborError("cbor: undefined and simple values other than true, false and null are not allowed") from None


def _same(value: Json) -> Json:
    return value


def _plain_int(value: int) -> int:
    if not -_INT_64 <= value < _INT_64:
        sign = "negative" if value < 0 else "positive"
        why = f"{value} overflows Go's int64"
        raise CborError(f"cbor: cannot unmarshal {sign} integer into Go value of type int64 ({why})")
    return value


def _plain_float(value: float) -> float:
    if not math.isfinite(value):
        what = "NaN" if math.isnan(value) else "infinity"
        raise CborError(f"cbor: data item of cbor type primitives is not accepted by protocol: floating-point {what}")
    return value


def _plain_list(value: Sequence[Any]) -> list[Json]:
    return [*map(_plain, value)]


def _plain_map(value: Mapping[Any, Any]) -> dict[str, Json]:
    plain: dict[str, Json] = {}
    for key, item in value.items():
        name = _plain(key) if isinstance(key, str | bytes) else None
        if name is None:
            raise CborError("cbor: cannot unmarshal a map key that is not a string")
        if name in plain:
            raise CborError("cbor: duplicate map key")
        plain[name] = _plain(item)
    return plain


@dataclass(frozen=True, slots=True)
class _Later:
    """A value whose byte strings become texts, but for those in another such tag (RFC 8949, section 3.4.5.2)."""

    content: Any
    encode: Callable[[bytes], bytes]


def _plain_later(value: _Later) -> Json:
    return _plain(_encode_bytes(value.content, value.encode))


def _encode_bytes(value: Any, encode: Callable[[bytes], bytes]) -> Any:
    match value:
        case bytes():
            return encode(value).decode()
        case list() | tuple():
            return [_encode_bytes(item, encode) for item in value]
        case Mapping():
            return {name: _encode_bytes(item, encode) for name, item in value.items()}
    return value


_PLAIN: Final[Mapping[type, Callable[[Any], Json]]] = {
    str: _same,
    bool: _same,
    type(None): _same,
    bytes: lambda value: value.decode("utf-8", "replace"),
    int: _plain_int,
    float: _plain_float,
    list: _plain_list,
    dict: _plain_map,
    # What the library makes of the same within a tag that it does not know.
    tuple: _plain_list,
    cbor2.frozendict: _plain_map,
    _Later: _plain_later,
}


# --- tags


# Each takes the content of a tag, and whether the result must be immutable, as in a map key, where no tag is allowed.


def _content(content: Any, immutable: bool) -> Any:
    return content


def _time_text(content: Any, immutable: bool) -> str:
    """A time in RFC 3339, which is returned as it is."""
    if not isinstance(content, str):
        raise CborError("cbor: tag number 0 must be followed by text string")
    try:
        canonical_time(content)
    except TimeError as error:
        raise CborError(f"cbor: cannot set {content} for time.Time: {error}") from error
    return content


def _time(content: Any, immutable: bool) -> str:
    """A time that is a number of seconds since 1970, in RFC 3339."""
    content = _plain(content)
    if isinstance(content, bool) or not isinstance(content, int | float):
        raise CborError("cbor: tag number 1 must be followed by integer or floating-point number")
    try:
        moment = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(seconds=content)
    except OverflowError as error:
        raise CborError("cbor: time out of range") from error
    return moment.isoformat().replace("+00:00", "Z")


def _forbidden(content: Any, immutable: bool) -> NoReturn:
    raise CborError("cbor: data item of cbor type tag is not accepted by protocol: bignum")


def _encoded_later(content: Any, immutable: bool, encode: Callable[[bytes], bytes]) -> _Later:
    return _Later(content, encode)


def _base64url(data: bytes) -> bytes:
    """Without padding (RFC 8949, section 3.4.5.2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _base16(data: bytes) -> bytes:
    return data.hex().encode()


# The library would construct Python types for these tags; all other tags decode to their content.
_SEMANTIC: Final[Mapping[int, Callable[[Any, bool], Any]]] = {
    **dict.fromkeys((4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799), _content),
    0: _time_text,
    1: _time,
    2: _forbidden,
    3: _forbidden,
    21: partial(_encoded_later, encode=_base64url),
    22: partial(_encoded_later, encode=base64.b64encode),
    23: partial(_encoded_later, encode=_base16),
}


# --- encoding


def encode_cbor(value: Json) -> bytes:
    return _SELF_DESCRIBED + encode_item(value)


def encode_item(value: Json, head: Mapping[str, Json] | None = None) -> bytes:
    """One data item without the self-described tag; keys in canonical order.

    `head` has the apiVersion and kind of a value that does not have its own, as the items of a list.
    """
    value = _with_bytes(value, head)
    try:
        if count_members(value, _MEMBERS_AT_ONCE) < _MEMBERS_AT_ONCE:
            return cbor2.dumps(_in_bytes(value), canonical=True)
    except RecursionError:
        pass
    return b"".join(_encode_in_pieces(value))


def _encode_in_pieces(value: Json) -> Iterator[bytes]:
    """The same without recursion, so of any depth, and between the pieces other threads run."""
    containers: list[Iterator[tuple[bytes, Json]]] = [iter([(b"", value)])]
    while containers:
        for name, item in containers[-1]:
            if isinstance(item, Mapping) and item:
                yield name + _head(_MAP, len(item))
                containers.append(_in_order(item))
                break
            if isinstance(item, list | tuple) and item:
                yield name + array_head(len(item))
                containers.append((b"", each) for each in item)
                break
            yield name + cbor2.dumps(_in_bytes(item), canonical=True)
        else:
            containers.pop()


def _in_order(members: Mapping[str, Json]) -> Iterator[tuple[bytes, Json]]:
    """The encoded names with their values in canonical order: the shorter name first."""
    lengths: dict[int, dict[bytes, Json]] = {}
    for name, item in members.items():
        encoded = name.encode("utf-8", "replace")
        lengths.setdefault(len(encoded), {})[encoded] = item
    for length, items in sorted(lengths.items(), key=lambda entry: entry[0]):
        head = _head(_BYTES, length)
        for encoded in sorted_keys(items):
            yield head + encoded, items[encoded]


def _with_bytes(value: Json, head: Mapping[str, Json] | None) -> Json:
    """Tags the bytes of an object of a built-in kind."""
    head = head or (value if isinstance(value, dict) else {})
    key = kind_key(head.get("apiVersion") or "", head.get("kind") or "")
    return value if key is None else tag_bytes(value, binary_members(key))


def encode_event(type_: str, obj: Json) -> bytes:
    """A watch event. Its object has a tag of its own, since it is encoded separately."""
    return _SELF_DESCRIBED + b"\xa2\x44type" + encode_item(type_) + b"\x46object" + _SELF_DESCRIBED + encode_item(obj)


def array_head(length: int) -> bytes:
    """The head of an array, which precedes its items."""
    return _head(_ARRAY, length)


def _head(kind: int, length: int) -> bytes:
    if length < 24:
        return bytes([kind | length])
    size = 1 if length < 1 << 8 else 2 if length < 1 << 16 else 4
    return bytes([kind | 0x18 + size.bit_length() - 1]) + length.to_bytes(size, "big")


def _in_bytes(value: Json) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace")
        case Mapping():
            return {name.encode("utf-8", "replace"): _in_bytes(item) for name, item in value.items()}
        case list() | tuple():
            return [_in_bytes(item) for item in value]
    return value
