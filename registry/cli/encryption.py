"""`registry encryption status|rotate`: what is sealed, and sealing with new keys."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import Any, Final

from registry.http.encryption import KEYS_VARIABLE, encryption_of
from registry.settings import ENCRYPTED_DATABASE, Settings, SettingsError, add_flags, load
from registry.store.connection import Pool
from registry.store.encryption import master_keys, resealing
from registry.store.encryption.master_keys import MasterKeyError
from registry.store.encryption.sealing import Sealing
from registry.store.errors import StoreError
from registry.store.settings import Settings as SharedSettings

KEYS: Final = (*ENCRYPTED_DATABASE, "encrypt_resources")


def add_commands(commands: Any) -> None:
    encryption = commands.add_parser("encryption", help="keys of the encryption at rest")
    actions = encryption.add_subparsers(dest="action", required=True, metavar="ACTION")
    generate = actions.add_parser("generate-key", help="print a new line for the key file")
    generate.add_argument("name", help="name of the key, such as 2026-11")
    status = actions.add_parser("status", help="which master keys are in use, and whether a rotation is unfinished")
    add_flags(status, KEYS)
    rotate = actions.add_parser(
        "rotate", help="seal everything again with new data keys and the first master key; interrupted, run it again"
    )
    rotate.add_argument("--rate", type=_rate, default=resealing.DEFAULT_RATE, help="rows a second [default: 1000]")
    add_flags(rotate, KEYS)


def _rate(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 1000000")
    return int(text)


def run(typed: dict[str, Any]) -> int:
    action = typed.pop("action")
    try:
        if action == "generate-key":
            print(master_keys.generate(typed["name"]))
            return 0
        rate = typed.pop("rate", resealing.DEFAULT_RATE)
        settings = load(typed, os.environ)
        return asyncio.run(_status(settings) if action == "status" else _rotate(settings, rate))
    except MasterKeyError as problem:
        raise SettingsError(str(problem)) from problem
    except StoreError as problem:
        print(f"registry: {problem}", file=sys.stderr)
        return 1


def _pool(settings: Settings) -> Pool:
    from registry.postgres.server import running_url

    url = settings.database_url
    if url is None:
        running = running_url(settings.data_dir / "postgres")
        if running is None:
            raise SettingsError(
                f"no server runs on {settings.data_dir}: start `registry serve`, or name --database-url"
            )
        url = running[0]
    return Pool(url, "encryption", 1)


async def _status(settings: Settings) -> int:
    pool = _pool(settings)
    try:
        in_use = await resealing.masters_in_use(pool)
        unfinished = await SharedSettings(pool).get(resealing.SETTING)
    finally:
        await pool.close()
    found = encryption_of(settings, os.environ)
    listed = found.masters.names if found else []
    for name in sorted({*in_use, *listed}):
        note = "" if name in listed or not name else ", not listed: what it sealed cannot be read"
        first = ", seals" if found and name == found.masters.first else ""
        print(f"{name or '(no key)'}: {in_use.get(name, 0)} keys wrapped{first}{note}")
    if found:
        print(f"encrypted: {', '.join(sorted(found.resources))}")
    print(f"rotation: unfinished since {unfinished['began']}, run it again" if unfinished else "rotation: finished")
    return 0


async def _rotate(settings: Settings, rate: int) -> int:
    encryption = encryption_of(settings, os.environ)
    if encryption is None:
        raise SettingsError(f"there are no keys: set --encryption-key-file or {KEYS_VARIABLE}")
    pool = _pool(settings)
    try:
        done = await resealing.rotate(pool, Sealing(pool, encryption), rate=rate)
    finally:
        await pool.close()
    print(
        f"{done.objects} objects and {done.changes} changes of {done.tenants} tenants sealed again, "
        f"{done.rewrapped} keys wrapped again"
    )
    return 0
