"""Logins for reports: created, listed, revoked. A login can read the views of its scope, and nothing else.

What a session may see is decided by the row of `report_logins` for its session user. Timeouts are settings of the
role; a session can change its own, so the server terminates what exceeds them (`ENFORCE`). A login can also change its
own password and settings, which PostgreSQL always permits: what it was granted is kept (`KEEP`), and restored by
repair.py.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg.pq.abc import PGconn

from registry.store.arrays import BigintArray
from registry.store.connection import Connection
from registry.store.reporting.login_limits import CONNECTIONS, TIMEOUT_SECONDS
from registry.store.reporting.quoting import identifier, literal
from registry.store.reporting.setup import (
    ALL_SCHEMA,
    OWN_SCHEMA,
    Roles,
    become_member,
    begin,
    holds,
    one_row,
    roles_of,
    run,
)
from registry.store.statements import statement

IDLE_SECONDS: Final = 60
# A transaction holds back vacuum, however short its statements are.
TRANSACTION_SECONDS: Final = 900
# A snapshot that outlives the login's time-out may hold back vacuum by so many transactions of all tenants. Each commit
# looks at all states of its tenant's counter since the oldest snapshot: after 8,000 writes at three times the cost.
HELD_BACK: Final = 10_000
# The disk space for temporary files, such as sorts, of one session at a time.
TEMP_FILES: Final = "2GB"
# What a session cannot set itself, and only a superuser for it. Errors are for the sender of the query: in the log, a
# text of 50 MB that is no number takes 50 MB.
LIMITS: Final = {"temp_file_limit": TEMP_FILES, "log_min_messages": "fatal", "log_min_error_statement": "panic"}

# Functions that write, which PUBLIC can execute by default; readers of reports must not.
_WRITING: Final = (
    *("lo_creat", "lo_create", "lo_from_bytea", "lo_unlink", "lo_put", "lowrite", "lo_truncate", "lo_truncate64"),
    "pg_logical_emit_message",
    # Transaction IDs, by the million, and thousands of subtransactions, which every snapshot has to look up.
    *("pg_current_xact_id", "txid_current"),
)
# What remains the owner's. The server uses advisory locks: a session that knows their numbers could make it wait
# forever.
# An exported snapshot is a file until the end of its transaction, which no limit counts: 12,000 in a second.
_OF_OWNER: Final = (
    "pg_export_snapshot",
    *(
        f"pg_{trying}advisory_{xact}lock{shared}"
        for trying in ("", "try_")
        for xact in ("", "xact_")
        for shared in ("", "_shared")
    ),
)
# All of a name, since their arguments differ between PostgreSQL's versions.
_FUNCTIONS: Final = """
    SELECT format('pg_catalog.%%I(%%s)', proname, pg_get_function_identity_arguments(oid)) FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY (%s)
"""

ENFORCE: Final = statement(
    "enforce-limits-of-logins",
    "Ends what report logins do for longer than they may, whatever they have set; reads all sessions.",
    """
    SELECT CASE WHEN s.lasts_long OR a.state <> 'active' THEN pg_terminate_backend(a.pid)
                ELSE pg_cancel_backend(a.pid) END
    FROM pg_stat_activity a JOIN report_logins l ON l.name = a.usename,
        LATERAL (SELECT coalesce(a.xact_start < clock_timestamp() - interval '1 second'
            * CASE WHEN age(a.backend_xmin) > %(held_back)s THEN 1.1 * l.timeout_seconds
                ELSE greatest(%(transaction_seconds)s, 2 * l.timeout_seconds) END, false) AS lasts_long) s
    WHERE a.datname = current_database() AND (s.lasts_long
        OR a.state = 'active' AND a.query_start < clock_timestamp() - 1.1 * l.timeout_seconds * interval '1 second'
        OR a.state LIKE 'idle in transaction%%' AND a.state_change < clock_timestamp() - interval '75 seconds')
    """,
)

END_BLOCKERS: Final = statement(
    "end-sessions-that-block-reports",
    "Ends the sessions of report logins for which a change of reports waits; reads all locks.",
    """
    SELECT pg_terminate_backend(a.pid)
    FROM pg_locks k, unnest(pg_blocking_pids(k.pid)) AS b (pid)
        JOIN pg_stat_activity a ON a.pid = b.pid JOIN report_logins l ON l.name = a.usename
    WHERE k.locktype = 'advisory' AND k.granted
        AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND (k.classid::bigint << 32) + k.objid::bigint = %(lock)s::bigint AND k.objsubid = 1
    """,
)


KEEP: Final = statement(
    "keep-grant-of-login",
    "Keeps what a login was granted: the password as PostgreSQL stores it, and the settings of the role. Of which role"
    " in which database goes with it, since a copy of the database has other ones.",
    """
    INSERT INTO settings (name, value)
    SELECT 'report-login:' || r.rolname, jsonb_build_object('role', r.oid::bigint, 'database', d.oid::bigint,
        'password', %(password)s::text, 'settings', to_jsonb(s.setconfig))
    FROM pg_roles r JOIN pg_database d ON d.datname = current_database()
        LEFT JOIN pg_db_role_setting s ON s.setrole = r.oid AND s.setdatabase = d.oid
    WHERE r.rolname = %(name)s::text
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
    """,
)


class LoginError(Exception):
    """A login cannot be created or revoked; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Login:
    """`tenants` None: all. With a `provider` none: it sees what others have bound of that tenant."""

    name: str
    tenants: tuple[str, ...] | None
    across: bool
    connections: int
    timeout_seconds: int
    created_at: datetime.datetime
    sessions: int
    provider: str | None = None

    @property
    def scope(self) -> str:
        return scope_of(self)


@dataclass(frozen=True, slots=True)
class LoginSpec:
    """The login to create. For one tenant, or across several, or with None across all. A provider's is across and has
    no tenants: the bindings determine them."""

    name: str
    tenants: tuple[str, ...] | None
    across: bool
    connections: int = CONNECTIONS
    timeout_seconds: int = TIMEOUT_SECONDS
    password: str | None = None
    provider: str | None = None
    # Whether an existing login may be given other tenants.
    move: bool = True


def scope_of(login: Login | LoginSpec) -> str:
    """'tenant acme', 'tenants acme, beta', 'all tenants' or 'what others have bound of acme'"""
    if login.provider:
        return f"what others have bound of {login.provider}"
    if login.tenants is None:
        return "all tenants"
    return f"tenant{'s' * (len(login.tenants) != 1)} {', '.join(login.tenants) or '(deleted)'}"


async def grant(connection: Connection, spec: LoginSpec) -> str:
    """Creates or changes the login, and returns its password: a new one if none is requested.

    `reports_all` must exist for a login across tenants. Raises LoginError.
    """
    if not re.fullmatch("[a-z_][a-z0-9_]{0,62}", spec.name) or spec.name.startswith("pg_"):
        raise LoginError(f"{spec.name!r} is not a name for a login: use lower case letters, digits and underscores")
    password = spec.password or secrets.token_urlsafe(24)
    async with connection.transaction():
        await begin(connection)  # not while a server restores what a login has changed
        roles = await roles_of(connection)
        tenants = await _tenant_ids(connection, spec.tenants)
        providers = await _tenant_ids(connection, (spec.provider,)) if spec.provider else None
        known = await holds(connection, "SELECT 1 FROM report_logins WHERE name = %s", spec.name)
        exists = await holds(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", spec.name)
        if exists and not known:
            raise LoginError(f"there is a role {spec.name} already, which this server did not create")
        if known and not spec.move:
            await _refuse_move(connection, spec)
        quoted = identifier(spec.name)
        secret = _encrypt(connection.pgconn, password, spec.name)
        await run(
            connection,
            f"{'ALTER' if exists else 'CREATE'} ROLE {quoted} LOGIN NOCREATEDB NOCREATEROLE"
            f" INHERIT CONNECTION LIMIT {int(spec.connections)} PASSWORD {literal(secret)}",
        )
        await _put(connection, spec, tenants, providers[0] if providers else None)
        await apply_spec(connection, roles, spec, tenants, secret)
    return password


async def apply_spec(
    connection: Connection, roles: Roles, spec: LoginSpec, tenants: list[int] | None, secret: str | None
) -> None:
    """Sets a login's settings and rights, and keeps what was granted. `secret` is its password as PostgreSQL stores it;
    None if unknown."""
    quoted = identifier(spec.name)
    schemas = await _schemas(connection, spec, tenants)
    for where in (f"ALTER ROLE {quoted}", f"ALTER ROLE {quoted} IN DATABASE {identifier(roles.database)}"):
        await run(connection, f"{where} RESET ALL")
    await _set(connection, quoted, roles, spec, schemas)
    await _give(connection, quoted, roles, spec, schemas)
    await connection.execute(KEEP.sql, {"name": spec.name, "password": secret})


async def _refuse_move(connection: Connection, spec: LoginSpec) -> None:
    """Raises LoginError if the login currently reads other tenants."""
    current = next(login for login in await logins(connection) if login.name == spec.name)
    wanted = None if spec.tenants is None else tuple(sorted(spec.tenants))
    if (current.tenants, current.across, current.provider) != (wanted, spec.across, spec.provider):
        raise LoginError(f"{spec.name} is a login for {current.scope}: add --move to give it {scope_of(spec)} instead")


async def revoke(connection: Connection, name: str) -> None:
    """Terminates its sessions and drops the login. Raises LoginError."""
    async with connection.transaction():
        if not await holds(connection, "SELECT 1 FROM report_logins WHERE name = %s", name):
            raise LoginError(f"there is no login {name} for reports")
        await connection.execute("DELETE FROM report_logins WHERE name = %s", (name,))
        await connection.execute("DELETE FROM settings WHERE name = %s", (f"report-login:{name}",))
        if await holds(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", name):
            quoted = identifier(name)
            await run(connection, f"ALTER ROLE {quoted} NOLOGIN")
            await become_member(connection, name)
            await end_sessions(connection, name)
            await run(connection, f"DROP OWNED BY {quoted}")
            await run(connection, f"DROP ROLE {quoted}")


async def end_sessions(connection: Connection, name: str) -> None:
    await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", (name,))


async def logins(connection: Connection) -> list[Login]:
    cursor = await connection.execute("""
        SELECT l.name, CASE WHEN l.tenant_ids IS NOT NULL THEN ARRAY(
                SELECT t.name FROM tenants t WHERE t.id = ANY (l.tenant_ids) ORDER BY t.name) END,
            l.across, coalesce(r.rolconnlimit, 0), l.timeout_seconds, l.created_at,
            (SELECT count(*) FROM pg_stat_activity a WHERE a.usename = l.name),
            (SELECT t.name FROM tenants t WHERE t.id = l.provider_id)
        FROM report_logins l LEFT JOIN pg_roles r ON r.rolname = l.name ORDER BY l.name
    """)
    return [Login(row[0], None if row[1] is None else tuple(row[1]), *row[2:]) for row in await cursor.fetchall()]


async def close_side_doors(connection: Connection, *, embedded: bool) -> None:
    """Revokes from PUBLIC what readers of reports do not need: tables and functions beside ours, which everybody may
    create in a database that was made by PostgreSQL 14, temporary tables, large objects, messages in the WAL, advisory
    locks, exported snapshots, and with our embedded PostgreSQL the other databases. What has another owner is left to
    that owner (docs/sql.md).

    Raises LoginError if everybody may create functions where the server looks for its own.
    """
    row = await one_row(
        connection,
        "SELECT current_database(), pg_has_role(current_user, datdba, 'MEMBER'),"
        " (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), nspname,"
        " pg_has_role(current_user, nspowner, 'MEMBER') FROM pg_database, pg_namespace"
        " WHERE datname = current_database() AND nspname = current_schema()",
    )
    assert row is not None
    database, owns, is_superuser, schema, owns_schema = row
    async with connection.transaction():
        if owns_schema:
            await run(connection, f"GRANT CREATE ON SCHEMA {identifier(schema)} TO CURRENT_USER")
            await run(connection, f"REVOKE CREATE ON SCHEMA {identifier(schema)} FROM PUBLIC")
        elif await holds(connection, "SELECT has_schema_privilege('public', %s, 'CREATE')", schema):
            text = (
                f"GRANT CREATE ON SCHEMA {schema} TO <the server's role>; REVOKE CREATE ON SCHEMA {schema} FROM PUBLIC"
            )
            raise LoginError(f"every login may create functions that the server would call: as its owner, run {text}")
        if owns:
            await run(connection, f"GRANT CONNECT, TEMPORARY ON DATABASE {identifier(database)} TO CURRENT_USER")
            await run(connection, f"REVOKE TEMPORARY ON DATABASE {identifier(database)} FROM PUBLIC")
        if is_superuser:
            text = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'objects'::regclass"
            owner = await one_row(connection, text)
            assert owner is not None
            for function in await _functions(connection, _OF_OWNER):
                await run(connection, f"GRANT EXECUTE ON FUNCTION {function} TO {identifier(owner[0])}")
            for function in await _functions(connection, (*_WRITING, *_OF_OWNER)):
                await run(connection, f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
        if is_superuser and embedded:
            for other in ("postgres", "template1"):
                await run(connection, f"REVOKE CONNECT ON DATABASE {identifier(other)} FROM PUBLIC")


async def _functions(connection: Connection, names: Sequence[str]) -> list[str]:
    return [row[0] for row in await (await connection.execute(_FUNCTIONS, [[*names]])).fetchall()]


def _encrypt(connection: PGconn, password: str, name: str) -> str:
    """Encrypts the password, so that PostgreSQL never logs it."""
    return connection.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()


async def _tenant_ids(connection: Connection, names: tuple[str, ...] | None) -> list[int] | None:
    if names is None:
        return None
    cursor = await connection.execute(
        "SELECT name, id FROM tenants WHERE name = ANY (%s) AND deleted_at IS NULL", (list(names),)
    )
    ids: dict[str, int] = {row[0]: row[1] for row in await cursor.fetchall()}
    for name in names:
        if name not in ids:
            raise LoginError(f"there is no tenant {name}")
    return [ids[name] for name in names]


async def _put(connection: Connection, spec: LoginSpec, tenants: list[int] | None, provider: int | None) -> None:
    await connection.execute(
        "INSERT INTO report_logins (name, across, tenant_ids, timeout_seconds, provider_id) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (name) DO UPDATE SET across = excluded.across, tenant_ids = excluded.tenant_ids,"
        " timeout_seconds = excluded.timeout_seconds, provider_id = excluded.provider_id",
        (spec.name, spec.across, None if tenants is None else BigintArray(tenants), spec.timeout_seconds, provider),
    )


async def _schemas(connection: Connection, spec: LoginSpec, tenants: list[int] | None) -> list[str]:
    if spec.across:
        return [ALL_SCHEMA]
    assert tenants is not None
    cursor = await connection.execute("SELECT name FROM report_schemas WHERE tenant_id = %s", (tenants[0],))
    return [*(row[0] for row in await cursor.fetchall()), OWN_SCHEMA]


async def _set(connection: Connection, quoted: str, roles: Roles, spec: LoginSpec, schemas: list[str]) -> None:
    settings = {
        "default_transaction_read_only": "on",
        "statement_timeout": f"{int(spec.timeout_seconds)}s",
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        "random_page_cost": "1.1",
        "jit": "off",
        # A report may take long, but no more than one processor.
        "max_parallel_workers_per_gather": "0",
    }
    where = f"ALTER ROLE {quoted} IN DATABASE {identifier(roles.database)}"
    for name, value in settings.items():
        await run(connection, f"{where} SET {name} = {literal(value)}")
    await run(connection, f"{where} SET search_path = {', '.join(map(identifier, schemas))}")
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege):  # then it is left to the database's owner
        async with connection.transaction():
            for name, value in LIMITS.items():
                await run(connection, f"{where} SET {name} = {literal(value)}")


async def _give(connection: Connection, quoted: str, roles: Roles, spec: LoginSpec, schemas: list[str]) -> None:
    cursor = await connection.execute(
        "SELECT r.rolname FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid WHERE m.member = %s::regrole",
        (quoted,),
    )
    held = {row[0] for row in await cursor.fetchall()}
    for across in (False, True):
        reader = roles.of(across)[1]
        # From PostgreSQL 16 on only those who administer a role may revoke it, even where nobody has it.
        if across == spec.across and reader not in held:
            await run(connection, f"GRANT {identifier(reader)} TO {quoted}")
        elif across != spec.across and reader in held:
            await run(connection, f"REVOKE {identifier(reader)} FROM {quoted}")
    await run(connection, f"GRANT CONNECT ON DATABASE {identifier(roles.database)} TO {quoted}")
    for schema in schemas:
        if schema not in (OWN_SCHEMA, ALL_SCHEMA):
            await run(connection, f"SET LOCAL ROLE {identifier(roles.owner)}")
            await run(connection, f"GRANT USAGE ON SCHEMA {identifier(schema)} TO {quoted}")
            await run(connection, "RESET ROLE")
