"""Reads request bodies within their limit, and decodes long ones outside of the event loop.

Decoding takes some 20 ns a byte for ordinary bodies, but up to 5 µs for bodies crafted to be slow: a few of those must
not block all other requests.

Follows apiserver pkg/endpoints/handlers/{rest,delete}.go (limitedReadBody, and the body of a delete).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from starlette.types import Receive, Scope

from registry.api.bodies import decoder_of
from registry.api.errors import bad_request, too_large
from registry.api.request import Body, PredecodedBody
from registry.codec.cbor import decode_cbor
from registry.codec.go_text import go_json, not_registered, type_meta, type_meta_error
from registry.codec.json_decode import decode_json, decode_verbatim_json, has_float
from registry.codec.model import Decoded, DecodeError, JsonNumberError, JsonSyntaxError, TooManyValues
from registry.codec.protobuf.envelope import decode_object as decode_protobuf
from registry.codec.structs import structs as typed
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.meta import META, UNVERSIONED
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import aside, evaluate
from registry.flowcontrol.time_slice import ClientGone
from registry.schema.field import MAX_TEXT

# kube-apiserver's MaxRequestBodyBytes; etcd's own limit is the reason there, clients rely on it.
BODY_LIMIT_BYTES = 3 * 1024 * 1024

# Shorter bodies block the event loop for less than 30 ms at worst, and most of them for less than the switch to a
# thread and back (some 100 µs). YAML is always slow; CBOR and protobuf are converted value by value. In YAML with
# aliases each byte may stand for hundreds of values.
LONG_JSON_BYTES = 16 * 1024
LONG_YAML_BYTES = 16 * 1024
_LONG_ALIASED_BYTES = 512


async def read_body(scope: Scope, receive: Receive, limit_bytes: int = BODY_LIMIT_BYTES) -> bytes:
    """Reads the whole body. Raises 413 as soon as it is known to exceed the limit."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit_bytes:
            raise _too_large(limit_bytes)
    first = await receive()
    if first["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = first.get("body", b"")
    if not first.get("more_body", False):
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        return body
    pieces, length = [body], len(body)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        length += len(piece)
        if length > limit_bytes:
            raise _too_large(limit_bytes)
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


def _too_large(limit_bytes: int) -> Exception:
    return too_large(f"limit is {limit_bytes}")


Result = TypeVar("Result")


async def aside_if_long(data: bytes, media_type: str, work: Callable[[], Result]) -> Result:
    """Returns the result of `work` on `data`, which has no other effects: in a thread if it may take long."""
    return await (aside(work) if _is_long(data, media_type) else evaluate(work, repeatable=True))


def _is_long(data: bytes, media_type: str) -> bool:
    if media_type.endswith("json"):
        return len(data) > LONG_JSON_BYTES
    return len(data) > LONG_YAML_BYTES or (
        len(data) > _LONG_ALIASED_BYTES and media_type.endswith("yaml") and b"*" in data
    )


async def body_of(data: bytes, media_type: str) -> Body:
    """Returns a body to be decoded; a long one is decoded now."""
    if not _is_long(data, media_type):
        return Body(data, media_type)
    outcome = await aside_if_long(data, media_type, lambda: _outcome(decoder_of(media_type), data))
    return Body(data, media_type, PredecodedBody(outcome))


def _outcome(decode: Callable[[bytes], Decoded], data: bytes) -> Decoded | DecodeError | TooManyValues:
    """Decodes. An error is kept until the body is read: the request may have other errors before that.

    What had been decoded is freed here rather than on the event loop: a million values take some 30 ms.
    """
    try:
        return decode(data)
    except (DecodeError, TooManyValues) as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)


# -- DeleteOptions, the body of a delete: in JSON, YAML or (from client-go's metadata client) protobuf
_SCHEME: Final = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
# The other kinds of this scheme: those that it knows in any version, and those of meta.k8s.io.
_ANY_VERSION: Final = UNVERSIONED | {"CreateOptions", "UpdateOptions"}
_FORMS: Final = frozenset({"Table", "TableOptions", "PartialObjectMetadata", "PartialObjectMetadataList"})
_META: Final = {
    "meta.k8s.io/v1": _FORMS | {"ListOptions", "GetOptions", "PatchOptions", "WatchEvent"},
    "meta.k8s.io/v1beta1": _FORMS,
}
_ONLY_V1BETA1: Final = ("meta.k8s.io/v1beta1", "PartialObjectMetadataList")


def decode_delete_options(data: bytes, media_type: str) -> dict[str, Any]:
    """Returns the fields that are given and known, of the right types, without nulls.

    Kind and apiVersion may be missing. Raises 400 for another kind.
    """
    try:
        value = _decode(data, media_type)
        if (why := type_meta_error(value)) is not None:
            raise bad_request(why)
        meta = type_meta(value or {}, is_sorted=media_type == "yaml")
        api_version, kind = meta.get("apiVersion") or "", meta.get("kind")
        if api_version.count("/") > 1:
            raise bad_request(f"unexpected GroupVersion string: {api_version}")
        api_version = api_version.removeprefix("/")  # Go reads "/v1" as version v1 of the core group
        if api_version in ("", "meta.k8s.io/"):
            api_version = "meta.k8s.io/v1"
        if api_version.endswith("/"):
            text = go_json(value, MAX_TEXT) if media_type == "yaml" else data.decode(errors="replace")
            raise bad_request(f"Object 'apiVersion' is missing in '{text}'")
        if kind and kind != "DeleteOptions":
            raise bad_request(_wrong_kind(kind, api_version))
        return typed.decode(META["DeleteOptions"], value).value
    except JsonSyntaxError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    except (DecodeError, StructDecodeError) as error:
        raise bad_request(str(error)) from error


def _wrong_kind(kind: str, api_version: str) -> str:
    if kind in _ANY_VERSION or kind in _META.get(api_version, ()):
        version = "v1beta1" if (api_version, kind) == _ONLY_V1BETA1 else "v1"
        return f"converting ({version}.{kind}) to (v1.DeleteOptions): unknown conversion"
    return not_registered(kind, api_version, _SCHEME)


def _decode(data: bytes, media_type: str) -> Any:
    match media_type:
        case "protobuf":
            return decode_protobuf(data, "v1", "DeleteOptions")
        case "cbor":
            return decode_cbor(data).value
        case "yaml":
            return decode_yaml(data).value
        case _:
            return _decode_json(data)


def _decode_json(data: bytes) -> Any:
    """Returns the value with repeated members, and with numbers as they were written, which errors quote."""
    try:
        decoded = decode_json(data)
    except JsonNumberError:  # an error only in any JSON, which DeleteOptions have not
        if (verbatim := decode_verbatim_json(data)) is None:
            raise
        return verbatim
    if decoded.duplicates or has_float(decoded.value):
        return decode_verbatim_json(data) or decoded.value
    return decoded.value
