"""What strangers claim is read up to a length."""

from __future__ import annotations

import base64
import json

from registry.authentication.tokens.unverified import LIMIT, unverified_claims


def token(size: int) -> str:
    """A JWT that nobody has signed, of some `size` characters."""
    claims = {"iss": "https://example.com", "groups": ["g" * 10] * (size * 3 // 4 // 14)}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({}, claims)]
    return ".".join((*parts, "x"))


def test_tokens_are_read_up_to_a_length() -> None:
    assert unverified_claims(token(LIMIT // 2)) is not None
    assert unverified_claims(token(LIMIT + 1000)) is None
