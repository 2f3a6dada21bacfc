"""Master keys, which are kept outside the database and seal everything inside. The first of the list seals.

    2026-11:OYhYmYwZ2Yp0QPKrcqBZ5rXZJqk0u0mF3x1b4o7X9fE=
    2026-05:7m5l0mMgE4dXQ1x8Q4b1mU0Yw9m7V7sV6b2n3y0mQ1c=

A line is a name and 32 random bytes in base64. What an older key has sealed can be unsealed as long as it is listed.
AES-256-GCM with a random nonce; sealed data is bound to its purpose, so that it cannot be moved to another place.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,32}", re.ASCII)
# The first byte of the output of `seal`.
_PLAIN, _SEALED = b"\0", b"\1"


class MasterKeyError(ValueError):
    """The list of keys cannot be used; the message repeats nothing of it but names."""


class CannotUnseal(Exception):
    """Sealed by a key that is not listed, for another purpose, or damaged."""


@dataclass(frozen=True, slots=True)
class MasterKeys:
    """`first` is the name of the key that seals."""

    first: str
    _ciphers: Mapping[str, AESGCM]

    @property
    def names(self) -> list[str]:
        return list(self._ciphers)

    def wrap(self, plain: bytes, purpose: str) -> bytes:
        """Seals with the first key; returns nonce, ciphertext and tag."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._ciphers[self.first].encrypt(nonce, plain, purpose.encode())

    def unwrap(self, sealed: bytes, purpose: str, name: str) -> bytes:
        """Raises CannotUnseal."""
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise CannotUnseal(f"the master key {name} is not listed")
        try:
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose.encode())
        except (InvalidTag, ValueError) as error:
            raise CannotUnseal(f"sealed by another key than the one named {name} now, or damaged") from error


def parse(text: str) -> MasterKeys:
    """Raises MasterKeyError. Skips empty lines and those starting with #; commas also separate keys."""
    ciphers: dict[str, AESGCM] = {}
    lines = [line.strip() for line in text.replace(",", "\n").splitlines()]
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#"):
            continue
        name, colon, encoded = line.partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise MasterKeyError(f"line {number} is not of the form <name>:<32 bytes in base64>")
        if name in ciphers:
            raise MasterKeyError(f"the name {name} is given twice")
        try:
            key = base64.b64decode(encoded.strip(), validate=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_BYTES:
            raise MasterKeyError(f"the key {name} is not 32 bytes in base64")
        ciphers[name] = AESGCM(key)
    if not ciphers:
        raise MasterKeyError("there is no key in it")
    return MasterKeys(next(iter(ciphers)), ciphers)


def generate(name: str) -> str:
    """Returns a new line for a key file. Raises MasterKeyError for an invalid name."""
    if not _NAME.fullmatch(name):
        raise MasterKeyError("a name has at most 32 letters, digits, dots, dashes and underscores")
    return f"{name}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def seal(masters: MasterKeys | None, plain: bytes, purpose: str) -> bytes:
    """Seals a secret of the server itself; without master keys it is only marked as plain."""
    if masters is None:
        return _PLAIN + plain
    name = masters.first.encode()
    return _SEALED + bytes([len(name)]) + name + masters.wrap(plain, purpose)


def unseal(masters: MasterKeys | None, sealed: bytes, purpose: str) -> bytes:
    """Raises CannotUnseal."""
    if sealed[:1] == _PLAIN:
        return sealed[1:]
    if sealed[:1] != _SEALED or len(sealed) < 2:
        raise CannotUnseal("sealed in a way that this server does not know")
    name = sealed[2 : 2 + sealed[1]].decode("ascii", "replace")
    if masters is None:
        raise CannotUnseal(f"sealed by the master key {name}, and this server has none")
    return masters.unwrap(sealed[2 + sealed[1] :], purpose, name)


def key_name(sealed: bytes) -> str:
    """Returns the name of the master key; empty if not sealed."""
    return sealed[2 : 2 + sealed[1]].decode("ascii", "replace") if sealed[:1] == _SEALED else ""
