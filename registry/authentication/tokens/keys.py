"""The keys of service account tokens: the signing key, those that verify, and the published key set.

A key signs for `lifetime`, then its successor does. The successor is published PUBLISHED_BEFORE ahead, which is longer
than the published key set may be cached, and an old key verifies until the last token that it signed has expired. The
first key is created when one is first needed. All processes share the keys; each reloads them every RELOAD_SECONDS, and
when it encounters a token with an unknown key.

Follows kubernetes pkg/serviceaccount/{jwt,openidmetadata}.go.
"""

from __future__ import annotations

import asyncio
import base64
import datetime
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from registry.store.signing_keys import StoredKey
from registry.store.store import Store

ALGORITHM: Final = "RS256"
LIFETIME: Final = datetime.timedelta(days=90)
PUBLISHED_BEFORE: Final = datetime.timedelta(hours=2)
# How long the published keys may be cached (Cache-Control).
DOCUMENT_SECONDS: Final = 3600
RELOAD_SECONDS: Final = 60.0
# Any client can name an unknown key: how often that may reload the keys.
_UNKNOWN_RELOAD_SECONDS: Final = 1.0
# The clock of the process that created a key may be ahead by this much.
_LEEWAY: Final = datetime.timedelta(seconds=30)
_RETENTION: Final = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Key:
    """`id` is the `kid` of its tokens."""

    id: str
    private: rsa.RSAPrivateKey
    stored: StoredKey

    def jwk(self) -> dict[str, str]:
        numbers = self.private.public_key().public_numbers()
        return {
            "use": "sig",
            "kty": "RSA",
            "kid": self.id,
            "alg": ALGORITHM,
            "n": _number(numbers.n),
            "e": _number(numbers.e),
        }


class SigningKeys:
    def __init__(self, store: Store, lifetime: datetime.timedelta = LIFETIME) -> None:
        self._store = store
        self._lifetime = lifetime
        self._keys: Mapping[str, Key] = {}
        self._loaded = -RELOAD_SECONDS
        self._loading = asyncio.Lock()
        self._making = asyncio.Lock()

    async def verifying(self, id: str) -> Key | None:
        """The key with this id, while it verifies; else None."""
        await self._refresh(RELOAD_SECONDS if id in self._keys else _UNKNOWN_RELOAD_SECONDS)
        return self._keys.get(id)

    async def all(self) -> Sequence[Key]:
        """All keys that verify, or will sign next."""
        await self._current()
        return list(self._keys.values())

    async def signer(self, until: datetime.datetime) -> Key:
        """The key to sign with; it verifies until then."""
        while True:
            key = await self._current()
            if key.stored.verifies_until >= until:
                return key
            if await self._store.keys.extend(key.id, until):
                renewed = replace(key, stored=replace(key.stored, verifies_until=until))
                self._keys = {**self._keys, key.id: renewed}
                return renewed
            await self._load()

    async def rotate(self) -> str:
        """Creates a key that replaces the signing key at once, and returns its id. Issued tokens stay valid."""
        key = await asyncio.to_thread(new_key, _now(), self._lifetime)
        await self._store.keys.add(key, at_once=True)
        await self._load()
        return key.id

    async def _current(self) -> Key:
        """The current signing key; creates it if there is none, and its successor in time."""
        await self._refresh(RELOAD_SECONDS)
        while True:
            now = _now()
            signing = [k for k in self._keys.values() if k.stored.signs_from - _LEEWAY <= now < k.stored.signs_until]
            if not signing:
                await self._make(now)
                continue
            current = max(signing, key=lambda k: (k.stored.signs_from <= now, k.stored.signs_from))
            end = current.stored.signs_until
            if end - now < PUBLISHED_BEFORE and not any(k.stored.signs_until > end for k in self._keys.values()):
                await self._make(end)
            return current

    async def _make(self, signs_from: datetime.datetime) -> None:
        known = self._keys
        async with self._making:
            if self._keys is not known:
                return  # another request has made one meanwhile: each takes tenths of a second of processor time
            key = await asyncio.to_thread(new_key, signs_from, self._lifetime)
            await self._store.keys.add(key)
            # Whether this process or another one was first.
            await self._load()

    async def _refresh(self, seconds: float) -> None:
        if time.monotonic() - self._loaded >= seconds:
            async with self._loading:
                if time.monotonic() - self._loaded >= seconds:
                    await self._load()

    async def _load(self) -> None:
        known = self._keys
        keys: dict[str, Key] = {}
        for stored in await self._store.keys.list():
            old = known.get(stored.id)
            private = old.private if old is not None else await asyncio.to_thread(_private, stored)
            keys[stored.id] = Key(stored.id, private, stored)
        self._keys = keys
        self._loaded = time.monotonic()


def new_key(signs_from: datetime.datetime, lifetime: datetime.timedelta) -> StoredKey:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    secret = private.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    until = signs_from + lifetime
    return StoredKey(_base64(hashlib.sha256(public).digest()), secret, signs_from, until, until + _RETENTION)


def _private(stored: StoredKey) -> rsa.RSAPrivateKey:
    key = serialization.load_der_private_key(stored.secret, password=None)
    assert isinstance(key, rsa.RSAPrivateKey), "new_key makes no others"
    return key


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
