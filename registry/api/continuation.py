"""Continue tokens: where the next page of a list starts, and at which revision.

The form is kube-apiserver's (apiserver pkg/storage/continue.go): unpadded base64url of {"v": "meta.k8s.io/v1", "rv":
5, "start": "<namespace>/<name>\\0"}; a negative rv continues at the newest revision, which clients get when their own
has been compacted. Ours has two more fields if they are known: "left", the number of objects of the list after the
start at that revision, and "of", the list that the number is for. So no page has to count what remains
(docs/decisions/object-counts.md).
"""

from __future__ import annotations

import base64
import posixpath
import re
from typing import NamedTuple

from registry.api.errors import StatusError, bad_request
from registry.codec import go_base64
from registry.codec.json_decode import decode_json, decode_verbatim_json
from registry.codec.json_encode import encode_json_text
from registry.codec.model import DecodeError as SyntaxFault
from registry.codec.structs import structs
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.scalars import INT64, STRING, Integer
from registry.codec.structs.structs import Field, Struct

_VERSION = "meta.k8s.io/v1"
NEWEST = -1
# Tokens are flat. Decoding what a client has nested in one, thousands of levels deep, takes a tenth of a second.
_MAX_NESTED = 100
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_TOKEN = Struct(
    "continueToken",
    (Field("v", STRING), Field("rv", Integer("int64", INT64)), Field("start", STRING)),
    package="storage",
)


class Continuation(NamedTuple):
    """`left` is what remains of the list `of`; None if the token has no number."""

    revision: int
    after: str
    left: int | None = None
    of: str = ""


def encode(revision: int, last_key: str, left: int | None = None, of: str = "") -> str:
    """Encodes a token. `of` names the list without its selectors: "widgets.example.com/default"."""
    token = {"v": _VERSION, "rv": revision, "start": last_key + "\0"}
    text = encode_json_text(token if left is None else {**token, "left": left, "of": of})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode(token: str) -> Continuation:
    """Decodes a token. Raises 400 with what is wrong with it."""
    try:
        raw = _decode_unpadded(token)
        outside = _STRING.sub(b"", raw)
        if outside.count(b"[") + outside.count(b"{") > _MAX_NESTED:
            raise SyntaxFault("exceeded max depth")
        decode_json(raw)
        value = decode_verbatim_json(raw)  # an error quotes a number as it was written
        if type(value) is dict:
            value = {name.lower(): member for name, member in value.items()}
        fields = structs.decode(_TOKEN, value).value
    except (SyntaxFault, StructDecodeError) as fault:
        raise _invalid(f"continue key is not valid: {fault}") from fault
    version, revision, start = fields.get("v", ""), fields.get("rv", 0), fields.get("start", "")
    if version != _VERSION:
        raise _invalid(f"continue key is not valid: server does not recognize this encoded version {version}")
    if not revision:
        raise _invalid(f"continue key is not valid: incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        raise _invalid(f"continue key is not valid: encoded start key empty (version {_VERSION})")
    key = start if start.startswith("/") else f"/{start}"
    if key.startswith("//") or posixpath.normpath(key) != key:
        raise _invalid(f"continue key is not valid: {start}")
    left, of = (value or {}).get("left"), (value or {}).get("of")
    if type(left) is not int or not 0 < left < 1 << 63 or not isinstance(of, str):
        return Continuation(revision, start.removesuffix("\0"))
    return Continuation(revision, start.removesuffix("\0"), left, of)


def _invalid(why: str) -> StatusError:
    return bad_request(f"invalid continue token: {why}")


def _decode_unpadded(token: str) -> bytes:
    try:
        return go_base64.decode(token, url=True, padded=False)
    except go_base64.Base64Error as error:
        raise _invalid(f"continue key is not valid: {error}") from error


EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of "
    "the results. Continuing with the provided token results in an inconsistent list - objects that were "
    "created, modified, or deleted between the time the first chunk was returned and now may show up in the "
    "list."
)
