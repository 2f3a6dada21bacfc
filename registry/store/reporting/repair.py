"""Reverts what a report login has changed about itself.

PostgreSQL lets every role change its own password and settings in any transaction that may write; no privilege can be
revoked to prevent it, and event triggers do not fire for roles (PostgreSQL's pages on ALTER ROLE and on event
triggers). So each login is compared with what it was granted, and differences are reverted: its settings, and its
password if the server may read pg_authid, else at intervals.

Each such change is written to the WAL and leaves a dead row of a table that all databases share. A login that has set
itself a text of 10,000 letters, where it may set megabytes again and again, is locked until it is granted again.
"""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

import psycopg

from registry.store.arrays import TextArray
from registry.store.connection import Connection
from registry.store.reporting.logins import LIMITS, LoginSpec, apply_spec, end_sessions
from registry.store.reporting.quoting import identifier, literal
from registry.store.reporting.setup import Roles, begin, run
from registry.store.statements import statement

logger = logging.getLogger(__name__)

# As many letters of a password or a setting are read.
_LONG: Final = 10_000

PASSWORD, SETTINGS = "password", "settings"

STATES: Final = statement(
    "states-of-logins",
    "What report logins were granted and what they have; reads all logins. `elsewhere`: the role is also one of another"
    " database, which it cannot make itself. A login can set 100 MB: only the beginning is compared.",
    r"""
    SELECT l.name, l.across, l.tenant_ids, l.timeout_seconds, k.value AS kept,
        (SELECT array_agg(left(s, 10000)) FROM unnest(own.setconfig[:100]) AS s) AS settings,
        EXISTS (SELECT 1 FROM pg_db_role_setting s WHERE s.setrole = r.oid AND s.setdatabase = 0) AS everywhere,
        EXISTS (SELECT 1 FROM pg_auth_members m JOIN pg_roles p ON p.oid = m.roleid
            WHERE m.member = r.oid AND p.rolname <> ALL (%(readers)s)
                AND (p.rolname LIKE '%%\_reader' OR p.rolname LIKE '%%\_reader\_all')) AS elsewhere
    FROM report_logins l JOIN pg_roles r ON r.rolname = l.name JOIN pg_database d ON d.datname = current_database()
        LEFT JOIN pg_db_role_setting own ON own.setrole = r.oid AND own.setdatabase = d.oid
        LEFT JOIN settings k ON k.name = 'report-login:' || l.name AND k.value ->> 'role' = r.oid::text
            AND k.value ->> 'database' = d.oid::text
    ORDER BY l.name
    """,
)

READS_PASSWORDS: Final = statement(
    "reads-passwords",
    "Whether the passwords of roles can be read, as they are stored: by superusers.",
    "SELECT has_table_privilege('pg_catalog.pg_authid', 'SELECT')",
)

STORED_PASSWORDS: Final = statement(
    "stored-passwords",
    "Passwords of report logins as they are stored, as far as they may be granted ones.",
    "SELECT a.rolname, left(coalesce(a.rolpassword, ''), 10000) FROM pg_catalog.pg_authid a"
    " JOIN report_logins l ON l.name = a.rolname",
)


class Drift(NamedTuple):
    """Something that a login had changed about itself and that was reverted: PASSWORD or SETTINGS."""

    login: str
    what: str


class _LoginState(NamedTuple):
    name: str
    across: bool
    tenants: list[int] | None
    timeout_seconds: int
    kept: dict[str, Any] | None
    settings: list[str] | None
    everywhere: bool
    elsewhere: bool


async def repair(connection: Connection, roles: Roles, *, unseen: bool) -> list[Drift]:
    """Reverts differences, in one transaction per login. `unseen`: also sets passwords that cannot be read.

    A login from before grants were kept gets its settings again, and its password is left alone.
    """
    cursor = await connection.execute(STATES.sql, {"readers": TextArray([roles.reader, roles.reader_all])})
    states = [_LoginState(*row) for row in await cursor.fetchall()]
    if not states:
        return []
    stored = await _stored_passwords(connection)
    drift: list[Drift] = []
    for state in states:
        wrong = _differences(state, stored)
        secret: str | None = (state.kept or {}).get("password")
        sets_password = PASSWORD in wrong or (unseen and stored is None and secret is not None and not state.elsewhere)
        if state.kept is not None and not wrong and not sets_password and _has_limits(state.kept):
            continue
        try:
            async with connection.transaction():
                await begin(connection)
                if _is_long(state, stored):
                    await _lock(connection, state.name)
                await _restore(connection, roles, state, secret, sets_password=sets_password)
        except psycopg.Error as error:
            logger.warning(
                "what the login %s has changed of itself cannot be restored: %s",
                state.name,
                str(error).partition("\n")[0],
            )
            continue
        if state.kept is not None:
            drift += [Drift(state.name, what) for what in wrong]
    return drift


def _differences(state: _LoginState, stored: dict[str, str] | None) -> list[str]:
    """Returns what differs from what was granted."""
    recorded = state.kept or {}
    wrong = []
    secret = recorded.get("password")
    if stored is not None and secret is not None and not state.elsewhere and stored.get(state.name) != secret:
        wrong.append(PASSWORD)
    if state.everywhere or sorted(state.settings or ()) != sorted(recorded.get("settings") or ()):
        wrong.append(SETTINGS)
    return wrong


def _is_long(state: _LoginState, stored: dict[str, str] | None) -> bool:
    texts = (*(state.settings or ()), (stored or {}).get(state.name, ""))
    return any(len(text) >= _LONG for text in texts)


async def _lock(connection: Connection, name: str) -> None:
    await run(connection, f"ALTER ROLE {identifier(name)} NOLOGIN")
    await end_sessions(connection, name)
    logger.warning(
        "the SQL login %s had set itself a text of %s letters or more: locked until it is granted again", name, _LONG
    )


def _has_limits(kept: dict[str, Any]) -> bool:
    """Returns whether a login has the limits of this version, or none because the server may not set them."""
    names = {str(setting).partition("=")[0] for setting in kept.get("settings") or ()}
    return "temp_file_limit" not in names or names.issuperset(LIMITS)


async def _restore(
    connection: Connection, roles: Roles, state: _LoginState, secret: str | None, *, sets_password: bool
) -> None:
    if sets_password and secret is not None:
        await run(connection, f"ALTER ROLE {identifier(state.name)} PASSWORD {literal(secret)}")
    spec = LoginSpec(state.name, None, state.across, timeout_seconds=state.timeout_seconds)
    await apply_spec(connection, roles, spec, state.tenants, secret)


async def _stored_passwords(connection: Connection) -> dict[str, str] | None:
    """Returns None if the server may not read them."""
    row = await (await connection.execute(READS_PASSWORDS.sql)).fetchone()
    if row is None or not row[0]:
        return None
    return dict(await (await connection.execute(STORED_PASSWORDS.sql)).fetchall())
