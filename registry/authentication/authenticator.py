"""Authenticates requests by a client certificate, or by a bearer token that one of several authenticators accepts.

An authenticator returns the user, or None if the token is not of its kind; it raises Rejected for an invalid token of
its kind. A token that no authenticator accepts is a 401; a request without credentials is anonymous. The reason of a
rejection is logged and returned by TokenReview, but never sent to the client that presented the token.

Follows apiserver pkg/authentication/request/{bearertoken,x509,union,anonymous} and pkg/authentication/token/union.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from registry.authentication.user import ADMINISTRATORS, ANONYMOUS, AUTHENTICATED, User
from registry.authentication.x509 import certified_user, user_of_connection

logger = logging.getLogger(__name__)

# Longer than any token of ours or of an issuer, but shorter than the head of a request may be.
MAX_TOKEN_BYTES: Final = 64 * 1024


class Unauthenticated(Exception):
    """The request has credentials that no authenticator accepts."""


class Rejected(Exception):
    """An invalid token of an authenticator's own kind. The text contains no secret."""


@dataclass(frozen=True, slots=True)
class Identified:
    """`audiences` are the requested ones that the token is for; None if it is valid for any audience."""

    user: User
    audiences: tuple[str, ...] | None = None


class Authenticator(Protocol):
    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        """`audiences` of None are those of this server. Raises Rejected."""

    def recall(self, token: str) -> User | None:
        """The user of a token for this server that `identify` would accept without a look-up now; otherwise None."""


class AdministratorToken:
    """The single token that the server generates for itself. Only its hash is kept; comparison takes constant time."""

    def __init__(self, digest: bytes) -> None:
        """`digest` is the SHA-256 of the token."""
        self._digest = digest
        self._identity = Identified(User("admin", (ADMINISTRATORS, AUTHENTICATED), "admin"))

    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        return self._identity if hmac.compare_digest(_digest(token), self._digest) else None

    def recall(self, token: str) -> User | None:
        return self._identity.user if hmac.compare_digest(_digest(token), self._digest) else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"
INVALID = "invalid bearer token"


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Whether requests without credentials are allowed: for all paths, or only for `paths`."""

    enabled: bool = True
    paths: frozenset[str] | None = None

    def allows(self, path: str) -> bool:
        return self.enabled and (self.paths is None or path in self.paths)


class Authentication:
    """All authenticators, in the order of `authenticators`."""

    def __init__(self, authenticators: Sequence[Authenticator], anonymous: Callable[[], Anonymous] = Anonymous) -> None:
        """`anonymous` is called for each request without credentials, since a file may change its result."""
        self._authenticators = authenticators
        self._anonymous = anonymous
        self._refusals = _Refusals()

    async def user_of(self, scope: Mapping[str, Any], authorization: str, warnings: list[str]) -> User:
        """The user of a request. Raises Unauthenticated."""
        extensions = scope.get("extensions")
        if extensions is not None:
            try:
                certified = user_of_connection(extensions.get("tls"))
            except ValueError as error:
                self._refusals.log("a client certificate", str(error))
                if not authorization:
                    raise Unauthenticated from error
            else:
                if certified is not None:
                    return certified
        token = bearer_token(authorization, warnings)
        if not token:
            if not self._anonymous().allows(scope["path"]):
                raise Unauthenticated
            return ANONYMOUS
        faults: list[str] = []
        identity = await self.identify(token, None, faults)
        if identity is None:
            self._refusals.log("a bearer token", ", ".join(faults) or INVALID)
            raise Unauthenticated
        return identity.user

    def recall(self, scope: Mapping[str, Any], token: str) -> User | None:
        """The user of a request with a client certificate or this bearer token, if no look-up is needed.

        None says nothing about the credentials: `user_of` decides.
        """
        certified = certified_user(scope)
        if certified is not None:
            return certified
        if not token or len(token) > MAX_TOKEN_BYTES:
            return None
        for authenticator in self._authenticators:
            if (found := authenticator.recall(token)) is not None:
                return found
        return None

    async def identify(self, token: str, audiences: Sequence[str] | None, faults: list[str]) -> Identified | None:
        """The user of a token; None if no authenticator accepts it, with their errors appended to `faults`."""
        if len(token) > MAX_TOKEN_BYTES:
            return None
        for authenticator in self._authenticators:
            try:
                identity = await authenticator.identify(token, audiences)
            except Rejected as error:
                faults.append(str(error))
                continue
            if identity is not None:
                return identity
        return None


def bearer_token(authorization: str, warnings: list[str]) -> str:
    """The token of an Authorization header; "" for another scheme or without a header."""
    parts = authorization.strip().split(" ")
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return ""
    token = parts[1]
    if not token and len(parts) == 3:
        warnings.append(EXTRA_SPACE)
    return token


class _Refusals:
    """Logs rejected credentials, at most one line a second: an unauthenticated client must not fill the log."""

    def __init__(self) -> None:
        self._next = 0.0
        self._unreported = 0

    def log(self, what: str, why: str) -> None:
        now = time.monotonic()
        if now < self._next:
            self._unreported += 1
            return
        more = f" ({self._unreported} more were refused since the last message)" if self._unreported else ""
        logger.info("%s was refused: %s%s", what, why[:500], more)
        self._next, self._unreported = now + 1.0, 0
