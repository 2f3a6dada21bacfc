"""Bearer tokens of this server: `registry.<tenant>.<id>.<secret>`, 256 random bits of secret.

The tenant and the id locate the row; the secret is compared with its hash in constant time. A process caches rows for
REVOKED_AFTER_SECONDS: a token revoked by another process is rejected after that at the latest; one that has expired, or
that this process has revoked, at once.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from typing import Final, TypeGuard

from registry.authentication.authenticator import Identified, Rejected
from registry.authentication.user import ANONYMOUS, AUTHENTICATED, CREDENTIAL_ID, User, claims_foreign_name
from registry.caches import ExpiringCache
from registry.flowcontrol.fair_permits import FairPermits, TooManyWaiting
from registry.flowcontrol.fair_queue import MAX_WAITING, TooManyRequests
from registry.store.errors import TenantNotFound
from registry.store.store import Store
from registry.store.tokens import StoredToken
from registry.store.types import Tenant, TenantName

PREFIX: Final = "registry."
REVOKED_AFTER_SECONDS: Final = 2.0
_CACHE_SIZE: Final = 20_000
# Concurrent look-ups of tokens: unauthenticated clients must not occupy all connections, nor delay those of users.
_LOOKUPS: Final = 2
_FORM: Final = re.compile(
    r"registry\.([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\.([a-z2-7]{16})\.([A-Za-z0-9_-]{43})", re.ASCII
)
_NOBODYS_HASH: Final = bytes(32)


class BadToken(Exception):
    """A new token cannot be created as requested; the text is for the user."""


class BearerTokens:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: ExpiringCache[tuple[str, str], tuple[StoredToken | None]] = ExpiringCache(_CACHE_SIZE)
        self._lookups = FairPermits(_LOOKUPS, MAX_WAITING)

    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        if not token.startswith(PREFIX):
            return None
        form = _FORM.fullmatch(token)
        if form is None:
            raise Rejected("a token of this server's kind is malformed")
        tenant, id, secret = form.groups()
        known = self._known.get((tenant, id))
        try:
            stored = known[0] if known is not None else await self._look_up(tenant, id)
        except TooManyWaiting:
            raise TooManyRequests from None
        if not _matches(stored, secret):
            raise Rejected("unknown token of this server's kind")
        if not stored.is_good(datetime.datetime.now(datetime.UTC)):
            raise Rejected(f"token {id} of tenant {tenant} has been revoked or has expired")
        return Identified(_user(stored, tenant))

    def recall(self, token: str) -> User | None:
        form = _FORM.fullmatch(token)
        if form is None:
            return None
        tenant, id, secret = form.groups()
        known = self._known.get((tenant, id))
        if known is None or not _matches(stored := known[0], secret):
            return None
        return _user(stored, tenant) if stored.is_good(datetime.datetime.now(datetime.UTC)) else None

    async def _look_up(self, name: str, id: str) -> StoredToken | None:
        owner = await self._lookups.acquire()
        try:
            known = self._known.get((name, id))
            if known is not None:
                return known[0]
            stored = None
            try:
                stored = await self._store.tokens.find(await self._store.tenant(TenantName(name)), id)
            except TenantNotFound:
                pass
            self._known.put((name, id), (stored,), REVOKED_AFTER_SECONDS)
            return stored
        finally:
            self._lookups.release(owner)

    async def create(
        self, tenant: Tenant, user: str, groups: Sequence[str], description: str, expires_at: datetime.datetime | None
    ) -> tuple[str, StoredToken]:
        """Creates a token and returns it; it cannot be read later. Raises BadToken, TenantNotFound."""
        _check(user, groups, description, expires_at)
        id = base64.b32encode(secrets.token_bytes(10)).decode().lower()
        secret = secrets.token_urlsafe(32)
        stored = await self._store.tokens.create(tenant, id, _hash(secret), user, groups, description, expires_at)
        if stored is None:
            raise TenantNotFound(f"tenant {tenant.name} does not exist")
        self._known.pop((tenant.name, id))
        return f"{PREFIX}{tenant.name}.{id}.{secret}", stored

    async def revoke(self, tenant: Tenant, id: str) -> StoredToken | None:
        """Revokes a token; returns None if it does not exist."""
        stored = await self._store.tokens.revoke(tenant, id)
        self._known.pop((tenant.name, id))
        return stored


def _matches(stored: StoredToken | None, secret: str) -> TypeGuard[StoredToken]:
    """Whether this is the secret of the token. Takes as long if there is no such token."""
    same = hmac.compare_digest(_hash(secret), stored.hash if stored is not None else _NOBODYS_HASH)
    return stored is not None and same


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("ascii")).digest()


def _user(stored: StoredToken, tenant: str) -> User:
    groups = stored.groups if AUTHENTICATED in stored.groups else (*stored.groups, AUTHENTICATED)
    return User(stored.user, groups, extra={CREDENTIAL_ID: (f"TOKEN={stored.id}",)}, tenant=tenant)


# More than anyone needs, and small enough to be sent with every request.
_MAX_GROUPS: Final = 64
_MAX_TEXT: Final = 1024


def _check(user: str, groups: Sequence[str], description: str, expires_at: datetime.datetime | None) -> None:
    if not user:
        raise BadToken("a token needs a user")
    if user == ANONYMOUS.name or user.startswith("system:serviceaccount:"):
        raise BadToken(f"{user} cannot have a token of this kind (service accounts: `kubectl create token`)")
    if claims_foreign_name(user, groups):
        raise BadToken("names that begin with system:tenant: are reserved")
    if len(groups) > _MAX_GROUPS:
        raise BadToken(f"more than {_MAX_GROUPS} groups")
    for text in (user, *groups, description):
        if len(text) > _MAX_TEXT or not text.isprintable():
            raise BadToken(f"user, groups and description must be printable and of at most {_MAX_TEXT} characters")
    if not all(groups):
        raise BadToken("a group has no name")
    if expires_at is not None and expires_at <= datetime.datetime.now(datetime.UTC):
        raise BadToken("the token would be past its end already")
