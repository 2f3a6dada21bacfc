"""Encryption at rest: bodies of some resources are sealed on their way into the database, and opened on their way out.

Each tenant has its own data keys (`tenant_keys`), each wrapped by a master key outside the database (master_keys.py).
The newest one seals; the others open what they have sealed until it is re-encrypted (resealing.py). A sealed body is
still the rest of a JSON object, so that SQL which reads bodies as JSON does not fail on it:

    "sealed":"1.<tenant>.<number of the data key>.<base64 of nonce, ciphertext and tag>"}}

Columns beside the body stay readable: names, labels, selectable fields, uids, revisions and actors. The sealed text is
bound to the tenant, the resource and the key of the object.

A body that is not sealed costs only a look at its first characters.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from registry.caches import ExpiringCache, LruCache
from registry.flowcontrol.evaluation import shared_aside
from registry.store.connection import Pool
from registry.store.encryption.master_keys import KEY_BYTES, NONCE_BYTES, CannotUnseal, MasterKeys
from registry.store.errors import Unreadable
from registry.store.statements import statement
from registry.store.types import Change, Row, Tenant, TenantId, Write, WriteOperation

logger = logging.getLogger(__name__)

MARK: Final = '"sealed":"'
_HEAD: Final = re.compile(re.escape(MARK) + r"1\.([0-9]{1,19})\.([0-9]{1,19})\.")
_END: Final = '"}}'
# How long a process may go on sealing with a key that is no longer the tenant's newest.
CURRENT_SECONDS: Final = 10.0
# What is longer, all that is opened at once taken together, is sealed and opened in a thread, in the tenant's turn: a
# megabyte would hold the event loop for some six milliseconds.
LONG_CHARACTERS: Final = 64 * 1024
# Base64 holds the interpreter, so it is made and read in parts of some 0.2 ms: multiples of 3 bytes, of 4 characters.
_PART: Final = 48 * 1024
# Unwrapped data keys that a process caches; some 300 bytes each.
CACHE_KEYS: Final = 10_000

NEWEST_KEY: Final = statement(
    "newest-data-key",
    "The newest data key of a tenant; by the primary key.",
    """
    SELECT number, master, wrapped FROM tenant_keys WHERE tenant_id = %(tenant)s::bigint ORDER BY number DESC LIMIT 1
    """,
)

DATA_KEY: Final = statement(
    "data-key",
    "One data key of a tenant; by the primary key.",
    """
    SELECT number, master, wrapped FROM tenant_keys
    WHERE tenant_id = %(tenant)s::bigint AND number = %(number)s::bigint
    """,
)

ADD_KEY: Final = statement(
    "add-data-key",
    "A new data key, unless another process has just made it.",
    """
    INSERT INTO tenant_keys (tenant_id, number, master, wrapped)
    VALUES (%(tenant)s::bigint, %(number)s::bigint, %(master)s::text, %(wrapped)s::bytea)
    ON CONFLICT (tenant_id, number) DO NOTHING
    """,
)


StoredRow = TypeVar("StoredRow", Row, Row | None)


class StoredBody(NamedTuple):
    """A body as it is stored, and where."""

    tenant: TenantId
    resource: str
    key: str
    body: str


@dataclass(frozen=True, slots=True)
class Encryption:
    """The master keys, and the resources whose bodies are sealed (`secrets`, `widgets.example.com`)."""

    masters: MasterKeys
    resources: frozenset[str]


class Sealing:
    """Seals and opens bodies. Without `encryption` nothing is sealed, and sealed bodies raise Unreadable."""

    def __init__(self, pool: Pool, encryption: Encryption | None) -> None:
        self._pool = pool
        self.masters = encryption.masters if encryption else None
        self.resources = encryption.resources if encryption else frozenset()
        # Unwrapped data keys.
        self._keys: LruCache[tuple[TenantId, int], AESGCM] = LruCache(CACHE_KEYS)
        # The number of the key that each tenant seals with.
        self._current: ExpiringCache[TenantId, int] = ExpiringCache(CACHE_KEYS)
        # Held while changes of a tenant are opened.
        self._opening: WeakValueDictionary[TenantId, asyncio.Lock] = WeakValueDictionary()

    def forget(self) -> None:
        """Drops all keys: some may no longer be stored."""
        self._keys.clear()
        self._current.clear()

    # -- in
    async def write(self, tenant: Tenant, write: Write) -> Write:
        """Returns the write with its body sealed, if its resource is encrypted."""
        if write.resource not in self.resources or write.operation is WriteOperation.DELETE:
            return write
        number, cipher = await self.current(tenant.id)
        arguments = tenant.id, write.resource, write.key, number, cipher, write.body
        is_long = len(write.body) > LONG_CHARACTERS
        body = await shared_aside(partial(seal_body, *arguments)) if is_long else seal_body(*arguments)
        indexed = write.indexed.of_sealed if write.indexed is not None else None
        return replace(write, body=body, doc=None, indexed=indexed)

    async def current(self, tenant: TenantId) -> tuple[int, AESGCM]:
        """Returns the key that the tenant seals with now; creates it if there is none."""
        known = self._current.get(tenant)
        if known is not None:
            return known, await self.key(tenant, known)
        rows = await self._pool.fetch(NEWEST_KEY, {"tenant": tenant})
        if not rows:
            await self.make_key(tenant, 1)
            rows = await self._pool.fetch(NEWEST_KEY, {"tenant": tenant})
        number, master, wrapped = rows[0]
        self._current.put(tenant, number, CURRENT_SECONDS)
        return number, self._remember(tenant, number, master, wrapped)

    async def make_key(self, tenant: TenantId, number: int) -> None:
        assert self.masters is not None, "resources are sealed only where there are master keys"
        wrapped = self.masters.wrap(os.urandom(KEY_BYTES), purpose_of(tenant, number))
        await self._pool.execute(
            ADD_KEY, {"tenant": tenant, "number": number, "master": self.masters.first, "wrapped": wrapped}
        )

    # -- out
    async def texts(self, bodies: Sequence[StoredBody]) -> list[str]:
        """Opens bodies, in a thread if they are long together. Raises Unreadable."""
        texts = [stored.body for stored in bodies]
        sealed = []
        for position, stored in enumerate(bodies):
            if stored.body.startswith(MARK):
                owner, number, begin = _parse(stored)
                if owner != stored.tenant:
                    raise Unreadable(f"{stored.resource} {stored.key} was moved here from another tenant")
                sealed.append((position, stored, await self.key(owner, number), begin))

        def open_all() -> None:
            for position, stored, cipher, begin in sealed:
                texts[position] = _open_text(stored, cipher, begin)

        if sum([len(stored.body) for _, stored, _, _ in sealed]) > LONG_CHARACTERS:
            await shared_aside(open_all)
        else:
            open_all()
        return texts

    async def text(self, tenant: TenantId, resource: str, key: str, body: str) -> str:
        """Opens a body. Raises Unreadable."""
        if not body.startswith(MARK):
            return body
        return (await self.texts([StoredBody(tenant, resource, key, body)]))[0]

    async def row(self, tenant: TenantId, row: StoredRow) -> StoredRow:
        """Opens a row; returns the row itself if it is not sealed, or None."""
        if row is None or not row.body.startswith(MARK):
            return row
        return row._replace(body=await self.text(tenant, row.resource, row.key, row.body))

    async def rows(self, tenant: TenantId, rows: Sequence[Row]) -> Sequence[Row]:
        # Without master keys a server does not start if anything may be sealed, so checking one row is enough.
        looked_at = rows if self.masters is not None else rows[:1]
        if not any(row.body.startswith(MARK) for row in looked_at):
            return rows
        texts = await self.texts([StoredBody(tenant, row.resource, row.key, row.body) for row in rows])
        return [row._replace(body=text) for row, text in zip(rows, texts, strict=True)]

    async def changes(self, changes: Iterable[Change]) -> None:
        """Opens changes of one tenant in place: they are shared, so each is opened once."""
        for change in changes:
            if _is_sealed(change):
                break
        else:
            return
        async with self._opening.setdefault(change.tenant, asyncio.Lock()):
            sealed = [change for change in changes if _is_sealed(change)]  # what no other has opened meanwhile
            bodies = {}
            for change in sealed:
                for body in (change.body, change.previous_body):
                    if body is not None:
                        bodies[id(body)] = StoredBody(change.tenant, change.resource, change.key, body)
            texts = dict(zip(bodies, await self.texts(list(bodies.values())), strict=True))
            for change in sealed:
                change.body = texts[id(change.body)]
                if change.previous_body is not None:
                    change.previous_body = texts[id(change.previous_body)]

    async def key(self, tenant: TenantId, number: int) -> AESGCM:
        known = self._keys.get((tenant, number))
        if known is not None:
            return known
        rows = await self._pool.fetch(DATA_KEY, {"tenant": tenant, "number": number})
        if not rows:
            raise Unreadable(f"the data key {number} of a tenant is gone")
        return self._remember(tenant, *rows[0])

    def _remember(self, tenant: TenantId, number: int, master: str, wrapped: bytes) -> AESGCM:
        try:
            if self.masters is None:
                raise CannotUnseal("this server has no master key")
            cipher = AESGCM(self.masters.unwrap(bytes(wrapped), purpose_of(tenant, number), master))
        except CannotUnseal as error:
            logger.error("the data key %s of tenant %s cannot be unwrapped: %s", number, tenant, error)
            raise Unreadable(f"a data key cannot be unwrapped: {error}") from error
        return self._keys.put((tenant, number), cipher)


def _is_sealed(change: Change) -> bool:
    previous = change.previous_body
    return change.body.startswith(MARK) or (previous is not None and previous.startswith(MARK))


def purpose_of(tenant: TenantId, number: int) -> str:
    return f"data-key/{tenant}/{number}"


def seal_body(tenant: TenantId, resource: str, key: str, number: int, cipher: AESGCM, body: str) -> str:
    nonce = os.urandom(NONCE_BYTES)
    sealed = nonce + cipher.encrypt(nonce, body.encode("utf-8", "surrogatepass"), _bound(tenant, resource, key))
    parts = [base64.b64encode(sealed[at : at + _PART]).decode() for at in range(0, len(sealed), _PART)]
    return f"{prefix_of(tenant, number)}{''.join(parts)}{_END}"


def prefix_of(tenant: TenantId, number: int) -> str:
    """Returns the beginning of every body sealed with a data key."""
    return f"{MARK}1.{tenant}.{number}."


def _parse(stored: StoredBody) -> tuple[TenantId, int, int]:
    """Returns the tenant, the number of the data key, and where the encoded bytes begin."""
    head = _HEAD.match(stored.body)
    if head is None or not stored.body.endswith(_END):
        raise _unknown(stored)
    return TenantId(int(head[1])), int(head[2]), head.end()


def _unknown(stored: StoredBody) -> Unreadable:
    return Unreadable(f"{stored.resource} {stored.key} is sealed in a way that this server does not know")


def _open_text(stored: StoredBody, cipher: AESGCM, begin: int) -> str:
    body, end = stored.body, len(stored.body) - len(_END)
    try:
        parts = [base64.b64decode(body[at : min(at + _PART, end)], validate=True) for at in range(begin, end, _PART)]
    except ValueError:
        raise _unknown(stored) from None
    blob = b"".join(parts)
    try:
        bound = _bound(stored.tenant, stored.resource, stored.key)
        plain = cipher.decrypt(blob[:NONCE_BYTES], blob[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError) as error:
        raise Unreadable(f"{stored.resource} {stored.key} is damaged, or was moved here") from error
    return plain.decode("utf-8", "surrogatepass")


def _bound(tenant: TenantId, resource: str, key: str) -> bytes:
    return f"{tenant}/{resource}/{key}".encode("utf-8", "surrogatepass")
