"""Parses a JWT without verifying it, to find the authenticator that is responsible for it.

The results must not be trusted.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

# Tokens of users in hundreds of groups have some 10 kB. Parsing 128 kB takes 4 ms, at any client's request.
LIMIT: Final = 32 * 1024

_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")


def unverified_claims(token: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The header and claims of a signed JWT in its compact form; None for anything else, and for a token longer than
    LIMIT.
    """
    if len(token) > LIMIT:
        return None
    parts = token.split(".")
    if len(parts) != 3 or not all(map(is_base64, parts[:2])):
        return None
    header, claims = _object(parts[0]), _object(parts[1])
    return None if header is None or claims is None else (header, claims)


def issuer_of(token: str) -> str:
    """The issuer that a token names; "" if it is not a JWT or names none."""
    parts = unverified_claims(token)
    issuer = parts[1].get("iss") if parts is not None else None
    return issuer if isinstance(issuer, str) else ""


def is_base64(text: str) -> bool:
    """Whether a text is base64url without padding, as in tokens."""
    return len(text) % 4 != 1 and _BASE64.fullmatch(text) is not None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
