"""Encryption at rest as configured: the master keys, and the key file of a new data folder.

The master keys come from a file (`--encryption-key-file`) or, if that is not set, from the environment variable
REGISTRY_ENCRYPTION_KEYS, which is not a setting so that no key is typed on a command line. With the embedded
PostgreSQL the default file is `encryption-keys` in the data folder, created when the folder is first served.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from registry.files import write_private
from registry.settings.declarations import Settings, SettingsError
from registry.store.connection import Pool
from registry.store.encryption import master_keys, resealing
from registry.store.encryption.master_keys import MasterKeyError
from registry.store.encryption.sealing import Encryption
from registry.store.errors import StoreError

KEYS_VARIABLE: Final = "REGISTRY_ENCRYPTION_KEYS"

logger = logging.getLogger(__name__)


def default_key_file(settings: Settings) -> Path:
    """Returns a path beside the folder of the embedded PostgreSQL: a copy of the database does not contain the key."""
    return settings.data_dir / "encryption-keys"


def key_file_of(settings: Settings, environ: Mapping[str, str]) -> Path | None:
    """Returns the file of master keys: the setting's, else the data folder's.

    The latter only if its database is served, and there are no keys in the environment.
    """
    if settings.encryption_key_file is not None or environ.get(KEYS_VARIABLE):
        return settings.encryption_key_file
    default = default_key_file(settings)
    return default if settings.database_url is None and default.exists() else None


def encryption_of(settings: Settings, environ: Mapping[str, str]) -> Encryption | None:
    """Returns the encryption; None without master keys. Raises SettingsError."""
    file, keys = key_file_of(settings, environ), environ.get(KEYS_VARIABLE, "")
    if file is None and not keys:
        return None
    try:
        text = keys if file is None else file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "not a text in UTF-8"
        raise SettingsError(f"--encryption-key-file: {file} cannot be read: {why}") from problem
    try:
        return Encryption(master_keys.parse(text), frozenset(settings.encrypt_resources))
    except MasterKeyError as problem:
        raise SettingsError(f"{KEYS_VARIABLE if file is None else file}: {problem}") from problem


def prepare(settings: Settings, url: str, environ: Mapping[str, str]) -> Path | None:
    """Ensures that a migrated database can be read, before any process serves it. Returns the file of its master keys.

    The embedded database gets a key file before its first object, and its signing keys are sealed if there is a key.
    Unencrypted data is reported in the log. Raises SettingsError, a line that says which key is missing.
    """
    return asyncio.run(_prepare(settings, url, environ))


async def _prepare(settings: Settings, url: str, environ: Mapping[str, str]) -> Path | None:
    embedded = settings.database_url is None
    pool = Pool(url, "encryption", 1)
    try:
        encryption = encryption_of(settings, environ)
        if encryption is None and embedded and await resealing.is_unused(pool):
            _make_key_file(default_key_file(settings))
            encryption = encryption_of(settings, environ)
        await resealing.require_masters(pool, encryption.masters if encryption else None)
        if encryption is None:
            logger.warning("%s", _unencrypted(settings))
        elif embedded:
            # No other server, which might not have the key yet, shares this database.
            await resealing.seal_signing_keys(pool, encryption.masters)
    except StoreError as problem:
        raise SettingsError(f"{problem}: {_where(settings, environ)}") from problem
    finally:
        await pool.close()
    return key_file_of(settings, environ)


def _make_key_file(path: Path) -> None:
    """Creates a file with one new key, readable by its owner only, durable before anything is sealed by it.

    An existing file is never replaced.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.made")
    line = master_keys.generate(f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}")
    write_private(temporary, f"{line}\n".encode())
    with contextlib.suppress(FileExistsError):
        os.link(temporary, path)
        logger.info(
            "created the encryption key file %s: back it up apart from the database; without it no secret can be read",
            path,
        )
    temporary.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unencrypted(settings: Settings) -> str:
    file = default_key_file(settings) if settings.database_url is None else "--encryption-key-file"
    return (
        "nothing is encrypted in the database: Secrets, and the keys that sign tokens of service accounts, can be "
        f"read in it and in its backups; docs/security.md describes how to set up {file}"
    )


def _where(settings: Settings, environ: Mapping[str, str]) -> str:
    """Describes where the master keys were looked for."""
    file = key_file_of(settings, environ)
    if file is not None:
        return f"bring back the {file} that it was served with"
    if environ.get(KEYS_VARIABLE):
        return f"{KEYS_VARIABLE} must list it"
    if settings.database_url is None:
        return f"bring back {default_key_file(settings)}, or name the file by --encryption-key-file"
    return "name its file by --encryption-key-file"
