"""Continue tokens of queries: the revision of the list, and the position after the last object returned.

A token belongs to one query: `query` is a digest of everything that selects and orders. The position is that of the
last object in the order (ordering.position) and its key, so the next page does not depend on the previous one's plan.
It is not signed: a client that forges one only moves its own position.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

from registry.codec.json_decode import decode_json
from registry.codec.json_encode import encode_canonical, encode_json_text
from registry.codec.model import DecodeError

_VERSION: Final = "query.registry/v1"
_MAX_LENGTH: Final = 20_000
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*", re.ASCII)


class TokenError(ValueError):
    """The text says what is wrong with a token, for the client."""

    def __init__(self, text: str, *, is_of_other_query: bool = False) -> None:
        super().__init__(text)
        self.is_of_other_query = is_of_other_query


@dataclass(frozen=True, slots=True)
class Token:
    """`order` is the text of the order, which the server chooses if the client does not. `total` counts all objects of
    the list, None if they were not counted; `seen` those up to the position."""

    query: str
    revision: int
    order: str | None
    position: bytes
    key: str
    seen: int
    total: int | None


def digest(*parts: object) -> str:
    """Returns a digest of a query: its filter, order, selectors and namespace."""
    return hashlib.blake2b(encode_canonical(list(parts)).encode(), digest_size=8).hexdigest()


def encode_token(token: Token) -> str:
    text = encode_json_text(
        {
            "v": _VERSION,
            "q": token.query,
            "rv": token.revision,
            "order": token.order,
            "at": token.position.hex(),
            "start": token.key,
            "seen": token.seen,
            "total": token.total,
        }
    )
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(text: str, query: str) -> Token:
    """Decodes a token. Raises TokenError."""
    if len(text) > _MAX_LENGTH or not text.isascii():
        raise TokenError("it is not a token of this server")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        value: Any = decode_json(raw).value
    except (binascii.Error, ValueError, DecodeError) as error:
        raise TokenError("it is not a token of this server") from error
    if not isinstance(value, dict) or value.get("v") != _VERSION:
        raise TokenError("it is of a list without filter and order")
    numbers = [value.get("rv"), value.get("seen"), *([] if value.get("total") is None else [value["total"]])]
    texts = [value.get("q"), value.get("start"), value.get("at")]
    if (
        not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers)
        or not all(isinstance(text, str) for text in texts)
        or not isinstance(value.get("order"), str | None)
        or not _HEX.fullmatch(value["at"])
    ):
        raise TokenError("it is not a token of this server")
    if value["q"] != query:
        message = "it is of another query: filter, orderBy, selectors and namespace must stay the same"
        raise TokenError(message, is_of_other_query=True)
    return Token(
        value["q"],
        value["rv"],
        value.get("order"),
        bytes.fromhex(value["at"]),
        value["start"],
        value["seen"],
        value.get("total"),
    )
