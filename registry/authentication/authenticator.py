"""Who is it? A client certificate, or a bearer token that one of several authenticators knows.

An authenticator answers the user, or None where the token is not of its kind; Rejected says what is wrong with one
that is. A token that nobody knows is a 401, no credentials at all is the anonymous user. What is wrong is reported in
the log and by TokenReview, never to who brought the token.

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
from registry.authentication.x509 import user_of_connection

logger = logging.getLogger(__name__)

# No token of ours or of any issuer is as long; the head of a request may be.
MAX_TOKEN_BYTES: Final = 64 * 1024


class Unauthenticated(Exception):
    """Credentials were given and nobody knows them."""


class Rejected(Exception):
    """A token of an authenticator's own kind that is not good. The text names no secret."""


@dataclass(frozen=True, slots=True)
class Identified:
    """`audiences` are those of the token that were asked for; None where any audience will do."""

    user: User
    audiences: tuple[str, ...] | None = None


class Authenticator(Protocol):
    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        """`audiences` None: those of this server. Raises Rejected."""


class AdministratorToken:
    """The one token that the server makes for itself. Only its hash is kept, and it is compared in constant time."""

    def __init__(self, digest: bytes) -> None:
        """`digest` is the SHA-256 of the token."""
        self._digest = digest
        self._found = Identified(User("admin", (ADMINISTRATORS, AUTHENTICATED), "admin"))

    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        return self._found if hmac.compare_digest(_digest(token), self._digest) else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


EXTRA_SPACE = "the provided Authorization header contains extra space before the bearer token, and is ignored"
INVALID = "invalid bearer token"


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Whether requests without credentials are served: of all paths, or of `paths` alone."""

    enabled: bool = True
    paths: frozenset[str] | None = None

    def allows(self, path: str) -> bool:
        return self.enabled and (self.paths is None or path in self.paths)


class Authentication:
    """All the ways together, in the order of `authenticators`."""

    def __init__(self, authenticators: Sequence[Authenticator], anonymous: Callable[[], Anonymous] = Anonymous) -> None:
        """`anonymous` is asked with each request that has no credentials: a file may change what it says."""
        self._authenticators = authenticators
        self._anonymous = anonymous
        self._refusals = _Refusals()

    async def user_of(self, scope: Mapping[str, Any], authorization: str, warnings: list[str]) -> User:
        """Who a request comes from. Raises Unauthenticated."""
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
        found = await self.identify(token, None, faults)
        if found is None:
            self._refusals.log("a bearer token", ", ".join(faults) or INVALID)
            raise Unauthenticated
        return found.user

    async def identify(self, token: str, audiences: Sequence[str] | None, faults: list[str]) -> Identified | None:
        """Whose token it is; None for nobody's, with what the authenticators have said of it in `faults`."""
        if len(token) > MAX_TOKEN_BYTES:
            return None
        for authenticator in self._authenticators:
            try:
                found = await authenticator.identify(token, audiences)
            except Rejected as error:
                faults.append(str(error))
                continue
            if found is not None:
                return found
        return None


def bearer_token(authorization: str, warnings: list[str]) -> str:
    """The token of an Authorization header; another scheme, or none, is no token."""
    parts = authorization.strip().split(" ")
    if len(parts) < 2 or parts[0].lower() != "bearer":
        return ""
    token = parts[1]
    if not token and len(parts) == 3:
        warnings.append(EXTRA_SPACE)
    return token


class _Refusals:
    """Tells of refused credentials, at most a line a second: a stranger must not be able to fill the log."""

    def __init__(self) -> None:
        self._next = 0.0
        self._untold = 0

    def log(self, what: str, why: str) -> None:
        now = time.monotonic()
        if now < self._next:
            self._untold += 1
            return
        more = f" ({self._untold} more were refused since the last message)" if self._untold else ""
        logger.info("%s was refused: %s%s", what, why[:500], more)
        self._next, self._untold = now + 1.0, 0
