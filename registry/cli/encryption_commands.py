"""The `registry encryption` commands: the state of encryption, and key rotation."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from registry.cli.errors import CommandError
from registry.cli.progress import ProgressBar
from registry.cli.servers import database_url
from registry.http.encryption import KEYS_VARIABLE, encryption_of
from registry.settings.declarations import Settings, SettingsError
from registry.settings.loading import load
from registry.store.connection import Pool
from registry.store.encryption import master_keys, resealing
from registry.store.encryption.master_keys import MasterKeyError
from registry.store.encryption.sealing import Sealing
from registry.store.errors import StoreError
from registry.store.settings import SharedSettings


def run(typed: dict[str, Any]) -> int:
    action = typed.pop("action")
    try:
        if action == "generate-key":
            print(master_keys.generate(typed["name"]))
            return 0
        rate = typed.pop("rate", None) or resealing.DEFAULT_RATE
        settings = load(typed, os.environ)
        return asyncio.run(_status(settings) if action == "status" else _rotate(settings, rate))
    except MasterKeyError as problem:
        raise SettingsError(str(problem)) from problem
    except StoreError as problem:
        raise CommandError(str(problem)) from problem


def _pool(settings: Settings) -> Pool:
    return Pool(database_url(settings)[0], "encryption", 1)


async def _status(settings: Settings) -> int:
    pool = _pool(settings)
    try:
        in_use = await resealing.masters_in_use(pool)
        unfinished = await SharedSettings(pool).get(resealing.SETTING)
    finally:
        await pool.close()
    encryption = encryption_of(settings, os.environ)
    listed = encryption.masters.names if encryption else []
    for name in sorted({*in_use, *listed}):
        unknown = "" if name in listed or not name else ", not listed: what it sealed cannot be read"
        first = ", seals" if encryption and name == encryption.masters.first else ""
        print(f"{name or '(no key)'}: {in_use.get(name, 0)} keys wrapped{first}{unknown}")
    if encryption:
        print(f"encrypted: {', '.join(sorted(encryption.resources))}")
    print(f"rotation: unfinished since {unfinished['began']}, run it again" if unfinished else "rotation: finished")
    return 0


async def _rotate(settings: Settings, rate: int) -> int:
    encryption = encryption_of(settings, os.environ)
    if encryption is None:
        raise SettingsError(f"there are no keys: set --encryption-key-file or {KEYS_VARIABLE}")
    pool = _pool(settings)
    try:
        with ProgressBar("objects and changes sealed") as progress:
            done = await resealing.rotate(
                pool,
                Sealing(pool, encryption),
                rate=rate,
                report=lambda so_far: progress.show(_sealed_count(so_far), max(so_far.total, _sealed_count(so_far))),
            )
            # An interrupted rotation had done the rest, and others may have deleted rows.
            progress.show(_sealed_count(done), _sealed_count(done))
    finally:
        await pool.close()
    print(
        f"{done.objects} objects and {done.changes} changes of {done.tenants} tenants sealed again, "
        f"{done.rewrapped} keys wrapped again"
    )
    return 0


def _sealed_count(so_far: resealing.Progress) -> int:
    return so_far.objects + so_far.changes
