"""Authenticates tokens of external issuers: verifies them, and maps their claims to a user.

The configuration file of the issuers is reloaded when it changes; an invalid change is logged and ignored.

Follows apiserver plugin/pkg/authenticator/token/oidc/oidc.go and pkg/server/options/authentication.go. Distributed
claims are not resolved.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jwt

from registry.authentication.authenticator import Anonymous, Identified, Rejected
from registry.authentication.oidc.configuration import (
    TENANT_KEY,
    BadConfiguration,
    ClaimValidationRule,
    Configuration,
    Issuer,
    Mapped,
    load_configuration,
)
from registry.authentication.oidc.expressions import ClaimExpression, ClaimFailed, claims_value, text_list
from registry.authentication.oidc.provider import FetchFailed, Provider, PublicKey
from registry.authentication.tokens.unverified import issuer_of, unverified_claims
from registry.authentication.user import (
    AUTHENTICATED,
    CREDENTIAL_ID,
    HOME_OF_STRANGERS,
    User,
    claims_foreign_name,
    is_storable,
)
from registry.caches import ExpiringCache
from registry.cel.common.values import Value
from registry.codec.go_text import go_quote
from registry.files import stamp_of
from registry.webhooks.egress import EgressPolicy

# As long as Kubernetes caches a result.
_CACHE_SECONDS: Final = 10.0
_CACHE_SIZE: Final = 10_000
_NOT_BEFORE_LEEWAY_SECONDS: Final = 300
# A token may name a later end, of any number of digits.
_LATEST: Final = 1 << 53
# How many keys without an id are tried.
_MAX_TRIED: Final = 16
_MAX_GROUPS: Final = 1000
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_ABSENT: Final = object()


class IssuerTokens:
    def __init__(self, issuer: Issuer, policy: EgressPolicy) -> None:
        self._issuer = issuer
        self._provider = Provider(issuer, policy)
        self._salt = os.urandom(16)
        # User, expiry of the token, generation of the keys.
        self._known: ExpiringCache[bytes, tuple[User, float, int]] = ExpiringCache(_CACHE_SIZE)

    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        digest = hashlib.blake2b(token.encode(errors="surrogateescape"), key=self._salt, digest_size=16).digest()
        known = self._known.get(digest)
        if known is not None and time.time() < known[1] and known[2] == self._provider.generation:
            return Identified(known[0])
        unverified = unverified_claims(token)
        if unverified is None or unverified[1].get("iss") != self._issuer.url:
            return None
        try:
            claims = await self._verify(token, unverified[0])
            user = user_of_claims(self._issuer, claims)
        except (FetchFailed, ClaimFailed) as error:
            raise Rejected(str(error)) from error
        expires = float(min(int(claims["exp"]), _LATEST))
        self._known.put(digest, (user, expires, self._provider.generation), _CACHE_SECONDS)
        return Identified(user)

    async def _verify(self, token: str, header: Mapping[str, Any]) -> dict[str, Any]:
        algorithm, id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or "crit" in header or not (id is None or isinstance(id, str)):
            raise ClaimFailed("oidc: malformed jwt")
        for key in (await self._provider.keys(id, algorithm))[:_MAX_TRIED]:
            claims = self._verify_with(key, token, algorithm)
            if claims is not None:
                return claims
        raise ClaimFailed("oidc: verify token: failed to verify signature")

    def _verify_with(self, key: PublicKey, token: str, algorithm: str) -> dict[str, Any] | None:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                issuer=self._issuer.url,
                options={
                    "verify_aud": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_sub": False,
                    "verify_jti": False,
                    "require": ["exp"],
                },
            )
        except jwt.InvalidSignatureError:
            return None
        except jwt.PyJWTError as error:
            raise ClaimFailed(f"oidc: verify token: {error}") from error
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if not any(isinstance(a, str) and a in self._issuer.audiences for a in audiences):
            raise ClaimFailed("oidc: verify token: the token is for another audience")
        start = claims.get("nbf") or 0
        if type(start) not in (int, float) or time.time() + _NOT_BEFORE_LEEWAY_SECONDS < start:
            raise ClaimFailed("oidc: verify token: the token is not valid yet")
        return claims


def user_of_claims(issuer: Issuer, claims: Mapping[str, Any]) -> User:
    """The user that verified claims map to. Raises Failed."""
    value = claims_value(claims)
    name = _username(issuer.username, claims, value)
    groups = _groups(issuer.groups, claims, value)
    if claims_foreign_name(name, groups):
        raise ClaimFailed("oidc: names that begin with system:tenant: are reserved")
    uid = _uid(issuer.uid, claims, value)
    extra = {
        key: tuple(texts)
        for key, expression in issuer.extra.items()
        if (texts := text_list(expression.evaluate(value)))
    }
    home = extra.pop(TENANT_KEY, ())
    if TENANT_KEY in issuer.extra and (len(home) != 1 or not _LABEL.fullmatch(home[0])):
        raise ClaimFailed("oidc: the claims name no home tenant")
    for rule in issuer.claim_rules:
        _check_claim(rule, claims, value)
    _check_user(issuer.user_rules, name, uid, groups, extra)
    id = claims.get("jti")
    if isinstance(id, str) and id:
        extra[CREDENTIAL_ID] = (f"JTI={id}",)
    if AUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    user = User(name, tuple(groups), uid, extra, home[0] if home else HOME_OF_STRANGERS)
    if not is_storable(user):
        raise ClaimFailed("oidc: a name has characters that cannot be stored")
    return user


def _username(mapped: Mapped, claims: Mapping[str, Any], value: Value) -> str:
    if mapped.expression is not None:
        name = _text(mapped.expression, value, "username")
    else:
        name = _claim_text(claims, mapped.claim, "username")
        # If the issuer states whether the address is verified, it must be.
        if mapped.claim == "email" and claims.get("email_verified", True) is not True:
            raise ClaimFailed("oidc: email not verified")
        name = mapped.prefix + name if name else name
    if not name:
        raise ClaimFailed("oidc: the username is empty")
    return name


def _groups(mapped: Mapped, claims: Mapping[str, Any], value: Value) -> list[str]:
    if mapped.expression is not None:
        groups = text_list(mapped.expression.evaluate(value))
    elif mapped.claim and mapped.claim in claims:
        claim = claims[mapped.claim]
        texts = [claim] if isinstance(claim, str) else claim
        if not isinstance(texts, list) or not all(isinstance(t, str) for t in texts):
            raise ClaimFailed(f"oidc: parse groups claim {go_quote(mapped.claim)}: neither a text nor a list of texts")
        groups = [mapped.prefix + t for t in texts]
    else:
        return []
    if len(groups) > _MAX_GROUPS:
        raise ClaimFailed(f"oidc: more than {_MAX_GROUPS} groups")
    return groups


def _uid(mapped: Mapped, claims: Mapping[str, Any], value: Value) -> str:
    if mapped.expression is not None:
        return _text(mapped.expression, value, "uid")
    return _claim_text(claims, mapped.claim, "uid") if mapped.claim else ""


def _text(expression: ClaimExpression, value: Value, what: str) -> str:
    text = expression.evaluate(value)
    if type(text) is not str:
        raise ClaimFailed(
            f"oidc: error evaluating {what} claim expression: {what} claim expression must return a string"
        )
    return text


def _claim_text(claims: Mapping[str, Any], claim: str, what: str) -> str:
    value = claims.get(claim, _ABSENT)
    if not isinstance(value, str):
        raise ClaimFailed(
            f"oidc: parse {what} claims {go_quote(claim)}: "
            + ("claim not present" if value is _ABSENT else "not a text")
        )
    return value


def _check_claim(rule: ClaimValidationRule, claims: Mapping[str, Any], value: Value) -> None:
    if rule.expression is not None:
        if not rule.expression.holds(value):
            raise ClaimFailed(
                "oidc: error evaluating claim validation expression: validation expression "
                f"'{rule.expression.text}' failed: {rule.message}"
            )
        return
    if rule.claim not in claims:
        raise ClaimFailed(f"oidc: required claim {rule.claim} not present in ID token")
    if claims[rule.claim] != rule.required_value:
        raise ClaimFailed(f"oidc: required claim {rule.claim} value does not match")


def _check_user(
    rules: Sequence[ClaimValidationRule], name: str, uid: str, groups: Sequence[str], extra: Mapping[str, Sequence[str]]
) -> None:
    user = {"username": name, "uid": uid, "groups": list(groups), "extra": {k: list(v) for k, v in extra.items()}}
    for rule in rules:
        if rule.expression is not None and not rule.expression.holds(user):
            raise ClaimFailed(
                "oidc: error evaluating user info validation rule: validation expression "
                f"'{rule.expression.text}' failed: {rule.message}"
            )


logger = logging.getLogger(__name__)

# How often the file is checked for changes while tokens arrive.
CHECK_SECONDS: Final = 15.0


class ExternalIssuerTokens:
    """`anonymous` is the file's configuration of anonymous requests; None if it has none."""

    def __init__(self, path: Path, own_issuer: str, policy: EgressPolicy) -> None:
        """Raises BadConfiguration."""
        self._path = path
        self._own_issuer = own_issuer
        self._policy = policy
        self._issuers: dict[str, IssuerTokens] = {}
        self.anonymous: Anonymous | None = None
        self._stamp = stamp_of(path)
        self._next = time.monotonic() + CHECK_SECONDS
        self._take_up(load_configuration(path, own_issuer))

    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        if time.monotonic() >= self._next:
            await self.reload()
        issuer = self._issuers.get(issuer_of(token))
        return await issuer.identify(token) if issuer is not None else None

    def recall(self, token: str) -> User | None:
        return None

    async def reload(self) -> None:
        """Reloads the file if it has changed."""
        self._next = time.monotonic() + CHECK_SECONDS
        stamp = await asyncio.to_thread(stamp_of, self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._take_up(await asyncio.to_thread(load_configuration, self._path, self._own_issuer))
            logger.info("loaded the authentication configuration in %s", self._path)
        except BadConfiguration as error:
            logger.error("the authentication configuration cannot be used, the old one stays: %s", error)

    def _take_up(self, configuration: Configuration) -> None:
        self._issuers = {i.url: IssuerTokens(i, self._policy) for i in configuration.issuers}
        self.anonymous = configuration.anonymous
