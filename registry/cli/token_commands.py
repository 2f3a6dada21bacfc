"""The `registry token` commands: bearer tokens of tenants, in the database of the settings."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import re
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

from registry.authentication.tokens.bearer import BadToken, BearerTokens
from registry.authentication.tokens.keys import SigningKeys
from registry.cli.errors import CommandError
from registry.cli.servers import database_url
from registry.cli.table import print_table
from registry.http.encryption import encryption_of
from registry.settings.declarations import Settings, SettingsError
from registry.settings.loading import load
from registry.store.errors import StoreError
from registry.store.store import Store
from registry.store.tokens import StoredToken
from registry.store.types import Tenant, TenantName

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_SECONDS: Final = 100 * 365 * 86400
_PAGE: Final = 500


def run(typed: dict[str, Any], environ: dict[str, str]) -> int:
    """Runs the command and returns the exit code."""
    action = typed.pop("action")
    names = "tenant user groups description expires id".split()
    arguments = argparse.Namespace(**{name: typed.pop(name) for name in names if name in typed})
    settings = load(typed, environ)
    seconds = _seconds(arguments.expires) if action == "create" else None
    try:
        asyncio.run(_run(_ACTIONS[action], settings, arguments, seconds))
    except (StoreError, BadToken) as problem:
        raise CommandError(str(problem)) from problem
    return 0


async def _run(action: _Action, settings: Settings, arguments: argparse.Namespace, seconds: int | None) -> None:
    """Runs an action on the store of a running server, or of the configured database."""
    url, _programs = database_url(settings)
    store = await Store.open(url, housekeeping=False, encryption=encryption_of(settings, os.environ))
    try:
        await action(store, arguments, seconds)
    finally:
        await store.close()


async def _create(store: Store, arguments: argparse.Namespace, seconds: int | None) -> None:
    ends = None if seconds is None else datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    tenant = await store.tenant(TenantName(arguments.tenant))
    token, stored = await BearerTokens(store).create(
        tenant, arguments.user, arguments.groups, arguments.description, ends
    )
    print(token)
    until = "never expires" if ends is None else f"expires {_time(ends)}"
    print(
        f"token {stored.id} of user {stored.user} in tenant {tenant.name}: {until}; it is not shown again",
        file=sys.stderr,
    )


async def _list(store: Store, arguments: argparse.Namespace, seconds: int | None) -> None:
    tenant = await store.tenant(TenantName(arguments.tenant))
    rows = [_row(stored) for stored in await _all(store, tenant)]
    print_table(("ID", "USER", "GROUPS", "STATE", "CREATED", "EXPIRES", "DESCRIPTION"), rows)


async def _all(store: Store, tenant: Tenant) -> list[StoredToken]:
    tokens: list[StoredToken] = []
    while True:
        page = await store.tokens.list(tenant, tokens[-1].id if tokens else "", _PAGE)
        tokens += page
        if len(page) < _PAGE:
            return tokens


def _row(stored: StoredToken) -> tuple[str, ...]:
    now = datetime.datetime.now(datetime.UTC)
    state = "active" if stored.is_good(now) else "revoked" if stored.revoked_at is not None else "expired"
    expires = _time(stored.expires_at) if stored.expires_at is not None else "never"
    groups = ",".join(stored.groups) or "-"
    return stored.id, stored.user, groups, state, _time(stored.created_at), expires, stored.description


async def _revoke(store: Store, arguments: argparse.Namespace, seconds: int | None) -> None:
    tenant = await store.tenant(TenantName(arguments.tenant))
    stored = await BearerTokens(store).revoke(tenant, arguments.id)
    if stored is None:
        raise BadToken(f"tenant {arguments.tenant} has no token {arguments.id}")
    print(f"token {stored.id} of user {stored.user} is revoked")


async def _rotate(store: Store, arguments: argparse.Namespace, seconds: int | None) -> None:
    # A new key must be sealed like the others, or not created.
    await store.require_readable()
    print(f"key {await SigningKeys(store).rotate()} signs from now on")


_Action = Callable[[Store, argparse.Namespace, int | None], Coroutine[Any, Any, None]]
_ACTIONS: Final[dict[str, _Action]] = {"create": _create, "list": _list, "revoke": _revoke, "rotate-keys": _rotate}


def _seconds(text: str) -> int | None:
    """Parses '90d' to seconds, 'never' to None."""
    if text == "never":
        return None
    form = re.fullmatch(r"([0-9]{1,9})([smhd])", text, re.ASCII)
    seconds = int(form[1]) * _UNITS[form[2]] if form is not None else 0
    if not 0 < seconds <= _MAX_SECONDS:
        raise SettingsError("--expires: must be a time such as 30m, 12h or 90d of at most a hundred years, or never")
    return seconds


def _time(at: datetime.datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
