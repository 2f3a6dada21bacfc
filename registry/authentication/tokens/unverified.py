"""What a JWT says of itself, before anybody has verified it: enough to find out whose business it is.

Nothing that is read here may be believed.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final

# Tokens of users in hundreds of groups have some 10 kB. Reading 128 kB takes 4 ms, which anybody may ask for.
LIMIT: Final = 32 * 1024

_BASE64: Final = re.compile(r"[A-Za-z0-9_-]*")


def unverified_claims(token: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Header and claims of a token that has the form of a signed JWT in its compact form; None for anything else, and
    for one that is longer than LIMIT.
    """
    if len(token) > LIMIT:
        return None
    parts = token.split(".")
    if len(parts) != 3 or not all(map(is_base64, parts[:2])):
        return None
    header, claims = _object(parts[0]), _object(parts[1])
    return None if header is None or claims is None else (header, claims)


def issuer_of(token: str) -> str:
    """The issuer that a token names; "" where it is no JWT or names none."""
    found = unverified_claims(token)
    issuer = found[1].get("iss") if found is not None else None
    return issuer if isinstance(issuer, str) else ""


def is_base64(text: str) -> bool:
    """Whether it is base64url without padding, as it is written in tokens."""
    return len(text) % 4 != 1 and _BASE64.fullmatch(text) is not None


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
