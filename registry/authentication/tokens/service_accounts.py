"""Service account tokens: JWTs that this server signs and verifies.

The issuer determines the tenant: that of `default` is the server's, that of another `<issuer>/clusters/<tenant>`. A
token is valid until it expires, as long as the account and the object that it is bound to exist with the uids in it.
That is checked on every request, from a cache of GONE_AFTER_SECONDS: an account deleted by another process is rejected
after that at the latest, one deleted by this process at once. The signature is verified once.

Follows kubernetes pkg/serviceaccount/{claims,jwt}.go and apiserver pkg/authentication/serviceaccount/util.go.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
import os
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import jwt

from registry.authentication.authenticator import Identified, Rejected
from registry.authentication.impersonation_headers import ACCOUNTS
from registry.authentication.tokens.keys import ALGORITHM, SigningKeys
from registry.authentication.tokens.unverified import is_base64, unverified_claims
from registry.authentication.user import AUTHENTICATED, CREDENTIAL_ID, User
from registry.caches import ExpiringCache
from registry.codec.go_text import go_quote, go_quote_all
from registry.codec.stored import decode_metadata
from registry.flowcontrol.evaluation import LARGE_BYTES, aside
from registry.store.errors import TenantNotFound
from registry.store.store import Store
from registry.store.types import ObjectKey, ResourceName, Row, Tenant, TenantId, TenantName

DEFAULT_TENANT: Final = "default"
GONE_AFTER_SECONDS: Final = 2.0
SERVICE_ACCOUNTS: Final = ResourceName("serviceaccounts")
SECRETS: Final = ResourceName("secrets")
# The objects that a token may be bound to: pods and nodes are not resources of this server.
BOUND_TO: Final = {"secret": SECRETS}
RESOURCES: Final = frozenset({SERVICE_ACCOUNTS, SECRETS})

_CACHE_SIZE: Final = 20_000
_VERIFIED_SECONDS: Final = 300.0
# Clock skew between processes; go-jose's leeway.
_LEEWAY_SECONDS: Final = 60
# An object counts as existing for this long after its deletion was requested.
_DELETED_LEEWAY: Final = datetime.timedelta(seconds=60)
# How long the key of a token without expiry is kept.
_FOR_EVER: Final = datetime.timedelta(days=100 * 365)
_CLUSTERS: Final = "/clusters/"
_CLAIM: Final = "kubernetes.io"
# go-jose's text, which kube-apiserver returns for any invalid signature.
_NOT_VERIFIED: Final = "go-jose/go-jose: error in cryptographic primitive"


@dataclass(frozen=True, slots=True)
class BoundReference:
    """An object by its resource, name and uid; `kind` is its name in the claims."""

    kind: str
    name: str
    uid: str


class AccountReference(NamedTuple):
    """The service account that a token is issued to."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Account:
    """The contents of a verified token. Times are seconds since 1970; an `expires` of 0 means never."""

    tenant: str
    namespace: str
    name: str
    uid: str
    bound: BoundReference | None
    audiences: tuple[str, ...]
    not_before: float
    expires: float
    identified: User


class AccountTokens:
    def __init__(self, store: Store, keys: SigningKeys, issuer: str) -> None:
        self._store = store
        self._keys = keys
        self._issuer = issuer
        # Keyed by this process's secret, so that a client cannot target an entry.
        self._salt = os.urandom(16)
        self._verified: ExpiringCache[bytes, Account] = ExpiringCache(_CACHE_SIZE)
        # Uids of existing objects, "" for missing ones.
        self._there: ExpiringCache[tuple[TenantId, ResourceName, str], str] = ExpiringCache(_CACHE_SIZE)
        self._changes = 0

    def issuer_of(self, tenant: str) -> str:
        return self._issuer if tenant == DEFAULT_TENANT else f"{self._issuer}{_CLUSTERS}{tenant}"

    def tenant_of(self, issuer: str) -> str | None:
        """The tenant of an issuer; None for a foreign issuer."""
        if issuer == self._issuer:
            return DEFAULT_TENANT
        start, separator, tenant = issuer.rpartition(_CLUSTERS)
        return tenant if separator and start == self._issuer and tenant != DEFAULT_TENANT and tenant else None

    def forget(self, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        """Invalidates the cached uid of an object that this process has written."""
        self._changes += 1
        self._there.pop((tenant.id, resource, key))

    # -- issuing
    async def issue(
        self,
        tenant: Tenant,
        account: AccountReference,
        *,
        audiences: Sequence[str],
        now: datetime.datetime,
        seconds: int | None,
        bound: BoundReference | None = None,
        token_id: str = "",
    ) -> str:
        """A new token; without `seconds` it does not expire itself, but ends with the object that it is bound to.

        `token_id` is its jti, by default a random one.
        """
        expires = now + (datetime.timedelta(seconds=seconds) if seconds is not None else _FOR_EVER)
        about: dict[str, Any] = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
        }
        if bound is not None:
            about[bound.kind] = {"name": bound.name, "uid": bound.uid}
        at = int(now.timestamp())
        claims = {
            "aud": list(audiences),
            **({"exp": at + seconds} if seconds is not None else {}),
            "iat": at,
            "iss": self.issuer_of(tenant.name),
            "jti": token_id or str(uuid.uuid4()),
            _CLAIM: about,
            "nbf": at,
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        key = await self._keys.signer(expires)
        return await asyncio.to_thread(jwt.encode, claims, key.private, ALGORITHM, {"kid": key.id, "typ": None})

    async def key_set(self) -> dict[str, Any]:
        """The document of /openid/v1/jwks."""
        return {"keys": [key.jwk() for key in await self._keys.all()]}

    def metadata(self, tenant: str, address: str) -> dict[str, Any]:
        """The document of /.well-known/openid-configuration; `address` is the server's URL for clients."""
        prefix = "" if tenant == DEFAULT_TENANT else f"{_CLUSTERS}{tenant}"
        return {
            "issuer": self.issuer_of(tenant),
            "jwks_uri": f"{address}{prefix}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }

    # -- verifying
    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        digest = self._digest(token)
        account = self._verified.get(digest)
        if account is None:
            account = await self._verify(token)
            if account is None:
                return None
            self._verified.put(digest, account, _VERIFIED_SECONDS)
        shared = self._check(account, audiences)
        await self._require_alive(account)
        return Identified(account.identified, shared)

    def recall(self, token: str) -> User | None:
        account = self._verified.get(self._digest(token))
        tenant = self._store.tenancy.recall(TenantName(account.tenant)) if account is not None else None
        if account is None or tenant is None:
            return None
        try:
            self._check(account, None)
        except Rejected:
            return None
        needed = [(SERVICE_ACCOUNTS, account.name, account.uid)]
        if (bound := account.bound) is not None:
            if bound.kind not in BOUND_TO:
                return None
            needed.append((BOUND_TO[bound.kind], bound.name, bound.uid))
        for resource, name, uid in needed:
            if self._there.get((tenant.id, resource, f"{account.namespace}/{name}")) != uid:
                return None
        return account.identified

    def _digest(self, token: str) -> bytes:
        return hashlib.blake2b(token.encode(errors="surrogateescape"), key=self._salt, digest_size=16).digest()

    def _check(self, account: Account, audiences: Sequence[str] | None) -> tuple[str, ...]:
        """Returns the requested audiences that the token is for. Raises Rejected, also outside of its time."""
        accepted = audiences if audiences is not None else (self.issuer_of(account.tenant),)
        shared = tuple(a for a in account.audiences if a in accepted)
        if not shared:
            raise Rejected(
                f"token audiences {go_quote_all(account.audiences)} is invalid for the target audiences "
                f"{go_quote_all(accepted)}"
            )
        now = time.time()
        if account.expires and now > account.expires:
            raise Rejected("service account token has expired")
        if now < account.not_before - _LEEWAY_SECONDS:
            raise Rejected("service account token is not valid yet")
        return shared

    async def _verify(self, token: str) -> Account | None:
        parts = unverified_claims(token)
        if parts is None:
            return None
        header, unverified = parts
        issuer = unverified.get("iss")
        tenant = self.tenant_of(issuer) if isinstance(issuer, str) else None
        id, algorithm = header.get("kid") or "", header.get("alg") or ""
        if (
            tenant is None
            or not isinstance(id, str)
            or not isinstance(algorithm, str)
            or not is_base64(token.rpartition(".")[2])
        ):
            return None
        key = await self._keys.verifying(id) if id else None
        if id and key is None:
            raise Rejected("invalid signature, no keys found")
        if key is None or algorithm != ALGORITHM:
            raise Rejected(_NOT_VERIFIED)  # without a key id it is not ours: our tokens all have one
        try:
            # Times and audiences are checked on each use, the signature only here.
            claims = jwt.decode(
                token,
                key.private.public_key(),
                algorithms=[ALGORITHM],
                issuer=issuer,
                options={"verify_aud": False, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )
        except jwt.PyJWTError as error:
            raise Rejected(_NOT_VERIFIED) from error
        account = _account(claims, tenant)
        if account is None:
            raise Rejected("service account token claims could not be validated")
        return account

    async def _require_alive(self, account: Account) -> None:
        try:
            tenant = await self._store.tenant(TenantName(account.tenant))
            uid = await self._uid(tenant, SERVICE_ACCOUNTS, f"{account.namespace}/{account.name}")
            if not uid:
                raise Rejected(f"serviceaccounts {go_quote(account.name)} not found")
            if uid != account.uid:
                raise Rejected(f"service account UID ({uid}) does not match claim ({account.uid})")
            bound = account.bound
            if bound is None:
                return
            resource = BOUND_TO.get(bound.kind)
            if resource is None or not (
                there := await self._uid(tenant, resource, f"{account.namespace}/{bound.name}")
            ):
                raise Rejected("service account token has been invalidated")
            if there != bound.uid:
                raise Rejected(
                    f"{bound.kind} UID ({there}) does not match service account {bound.kind} ref claim ({bound.uid})"
                )
        except TenantNotFound as error:
            raise Rejected("the tenant of the service account token is gone") from error

    async def _uid(self, tenant: Tenant, resource: ResourceName, key: str) -> str:
        """The uid of an object, "" if it does not exist or its deletion was requested some time ago."""
        place = (tenant.id, resource, key)
        known = self._there.get(place)
        if known is not None:
            return known
        changes = self._changes
        row, _ = await self._store.load(tenant, resource, ObjectKey(key))
        uid = "" if row is None or await _is_deleted(row) else str(row.uid)
        if changes == self._changes:
            # Otherwise the row may have been read before the write.
            self._there.put(place, uid, GONE_AFTER_SECONDS)
        return uid


async def _is_deleted(row: Row) -> bool:
    if '"deletionTimestamp"' not in row.body:
        return False
    decode = partial(decode_metadata, row.body)
    metadata = await aside(decode) if len(row.body) > LARGE_BYTES else decode()
    at = metadata.get("deletionTimestamp")
    now = datetime.datetime.now(datetime.UTC)
    return at is not None and datetime.datetime.fromisoformat(at) < now - _DELETED_LEEWAY


def _account(claims: Mapping[str, Any], tenant: str) -> Account | None:
    """The account in the claims; None if they are not those of a service account."""
    about = claims.get(_CLAIM)
    if not isinstance(about, dict) or not isinstance(about.get("serviceaccount"), dict):
        return None
    namespace = about.get("namespace")
    name, uid = about["serviceaccount"].get("name"), about["serviceaccount"].get("uid")
    audience = claims.get("aud")
    audiences = tuple(audience) if isinstance(audience, list) else (audience,)
    times = [claims.get("nbf") or 0, claims.get("exp") or 0]
    texts = (namespace, name, uid, *audiences)
    if not all(isinstance(t, str) and t for t in texts) or not all(type(t) in (int, float) for t in times):
        return None
    bounds = [
        BoundReference(kind, str(ref.get("name") or ""), str(ref.get("uid") or ""))
        for kind in ("pod", "node", "secret")
        if isinstance(ref := about.get(kind), dict)
    ]
    user = User(
        f"system:serviceaccount:{namespace}:{name}",
        (ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED),
        str(uid),
        _extra(claims),
        tenant,
    )
    return Account(
        tenant,
        str(namespace),
        str(name),
        str(uid),
        bounds[0] if bounds else None,
        tuple(str(a) for a in audiences),
        times[0],
        times[1],
        user,
    )


def _extra(claims: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    id = claims.get("jti")
    return {CREDENTIAL_ID: (f"JTI={id}",)} if isinstance(id, str) and id else {}
