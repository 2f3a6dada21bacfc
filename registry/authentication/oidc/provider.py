"""The keys of one external issuer: located by its discovery document, cached, and fetched again when they change.

Fetching follows the rules of outgoing calls (registry/webhooks/https.py): HTTPS only, the address is checked before
connecting, no redirects, no proxies of the environment, limited in time, size and number of values. A token with an
unknown key triggers another fetch, at most every RETRY_SECONDS, so that clients cannot use the server to flood the
issuer. A fetch belongs to no request: a client that leaves does not end it, and requests that need it share it.

Follows go-oidc's provider and key set (github.com/coreos/go-oidc).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from registry.authentication.oidc.configuration import Issuer
from registry.codec.model import DecodeError
from registry.webhooks.answers import decode_bounded_json, shorten
from registry.webhooks.connection import Origin, Unreachable
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.endpoint import parse_https_url
from registry.webhooks.errors import CallFailed
from registry.webhooks.https import PLATFORM, HttpsAnswer, HttpsClient, HttpsRequest, Limits

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 10.0
# A withdrawn key remains valid for at most FRESH_SECONDS, or STALE_SECONDS while the issuer cannot be reached.
FRESH_SECONDS: Final = 600.0
STALE_SECONDS: Final = 3600.0
_TIMEOUT_SECONDS: Final = 10.0
ISSUER_LIMITS: Final = Limits(
    resolve_seconds=5, connect_seconds=5, tls_seconds=5, head_seconds=10, body_seconds=5, body_bytes=1 << 20
)
# How long a token waits for a fetch although its key is known, so that a slow issuer does not slow it down.
_PATIENCE_SECONDS: Final = 1.0
# Far more than real documents have: a key has ten.
_MAX_VALUES: Final = 20_000
_MAX_KEYS: Final = 100
# The base64 length of an RSA modulus of 8,192 bits, and the largest public exponent, as in Go: verification takes time
# that is quadratic in the one and linear in the length of the other, for each token that anybody makes up.
_MAX_NUMBER: Final = 1366
_MAX_EXPONENT: Final = (1 << 31) - 1
# The signature algorithms that a key may be used for; nothing symmetric, and never "none".
_ALGORITHMS: Final = {
    ("RSA", ""): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
}


class FetchFailed(Exception):
    """The issuer cannot be reached; the text is for the operator."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    id: str
    key: Any
    algorithms: frozenset[str]


class Provider:
    def __init__(self, issuer: Issuer, policy: EgressPolicy) -> None:
        self._issuer = issuer
        self._policy = policy
        self._keys: Sequence[PublicKey] = ()
        self._fetched = -STALE_SECONDS
        self._tried = -RETRY_SECONDS
        self._fetching: asyncio.Task[None] | None = None
        # Incremented when the keys change: tokens verified by former keys are verified again.
        self.generation = 0

    async def keys(self, id: str | None, algorithm: str) -> list[PublicKey]:
        """The keys that may have signed a token with this header. Raises FetchFailed."""
        now = time.monotonic()
        fitting = self._fitting(id, algorithm)
        if now - self._fetched >= FRESH_SECONDS or (not fitting and algorithm):
            fetching = self._refresh()
            if fetching is not None:
                is_usable = fitting and now - self._fetched < STALE_SECONDS
                await asyncio.wait({fetching}, timeout=_PATIENCE_SECONDS if is_usable else None)
            fitting = self._fitting(id, algorithm)
        if time.monotonic() - self._fetched >= STALE_SECONDS:
            raise FetchFailed("oidc: authenticator not initialized")
        return fitting

    def _fitting(self, id: str | None, algorithm: str) -> list[PublicKey]:
        return [k for k in self._keys if (id is None or k.id == id) and algorithm in k.algorithms]

    def _refresh(self) -> asyncio.Task[None] | None:
        """Returns the fetch in progress, or a new one, unless that was tried just now."""
        if self._fetching is None and time.monotonic() - self._tried >= RETRY_SECONDS:
            self._fetching = asyncio.create_task(
                self._replace_keys(), name=f"keys of {self._issuer.url}", context=contextvars.Context()
            )
        return self._fetching

    async def _replace_keys(self) -> None:
        """Fetches the keys. A failure keeps the cached ones."""
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                keys = await self._fetch()
            if [k.id for k in keys] != [k.id for k in self._keys]:
                self.generation += 1
            self._keys, self._fetched = keys, time.monotonic()
        except (FetchFailed, TimeoutError) as error:
            logger.warning(
                "the keys of issuer %s could not be fetched: %s", self._issuer.url, str(error) or type(error).__name__
            )
        except Exception:
            logger.exception("the keys of issuer %s could not be fetched", self._issuer.url)
        finally:
            self._tried = time.monotonic()
            self._fetching = None

    async def _fetch(self) -> list[PublicKey]:
        url = self._issuer.metadata_url
        client = HttpsClient(self._policy, ISSUER_LIMITS)
        try:
            metadata = await self._get(client, url)
            if metadata.get("issuer") != self._issuer.url:
                raise FetchFailed(f"{url} is the document of another issuer")
            if not isinstance(metadata.get("jwks_uri"), str):
                raise FetchFailed(f"{url} names no jwks_uri")
            return _keys(await self._get(client, metadata["jwks_uri"]))
        finally:
            await client.aclose()

    async def _get(self, client: HttpsClient, text: str) -> dict[str, Any]:
        try:
            url = parse_https_url(text)
            return await client.exchange(
                PLATFORM,
                Origin(url.host, url.port, self._issuer.ca),
                HttpsRequest("GET", url.target, {"Accept": "application/json"}),
                lambda answer: _document(text, answer),
            )
        except (CallFailed, Unreachable) as error:
            raise FetchFailed(f"{text[:200]}: {error}") from error
        except ssl.SSLError as error:
            raise FetchFailed("the CA bundle cannot be read") from error


def _document(text: str, answer: HttpsAnswer) -> dict[str, Any]:
    """The JSON object in the response of the URL `text`. Raises FetchFailed."""
    if answer.status != 200:
        raise FetchFailed(f"{text[:200]} answers {answer.status}")
    try:
        value = decode_bounded_json(answer.data, max_values=_MAX_VALUES)
    except DecodeError as error:
        raise FetchFailed(f"{text[:200]} is no JSON: {shorten(str(error))}") from error
    if not isinstance(value, dict):
        raise FetchFailed(f"{text[:200]} is no JSON object")
    return value


def _keys(document: dict[str, Any]) -> list[PublicKey]:
    """The keys of a set that can verify signatures; others are ignored."""
    entries = document.get("keys")
    if not isinstance(entries, list):
        raise FetchFailed("the set of keys has no keys")
    keys = []
    for entry in entries[:_MAX_KEYS]:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        curve = entry.get("crv") if entry.get("kty") == "EC" else ""
        algorithms = _ALGORITHMS.get((str(entry.get("kty")), str(curve)))
        named = entry.get("alg")
        if algorithms is None or (named is not None and named not in algorithms):
            continue
        public = {name: value for name, value in entry.items() if name in ("kty", "crv", "n", "e", "x", "y")}
        if any(not isinstance(value, str) or len(value) > _MAX_NUMBER for value in public.values()):
            continue
        try:
            key = jwt.PyJWK(public, algorithm=named or min(algorithms)).key
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, RSAPublicKey) and key.public_numbers().e > _MAX_EXPONENT:
            continue
        id = entry.get("kid")
        keys.append(PublicKey(id if isinstance(id, str) else "", key, frozenset({named}) if named else algorithms))
    return keys
