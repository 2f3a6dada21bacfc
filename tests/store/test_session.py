"""Settings of the server's sessions that PostgreSQL's own defaults, or those of a database, must not change."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from registry.store.session import connect


@pytest.mark.parametrize("lookups_only", [False, True])
@pytest.mark.parametrize(
    ("name", "elsewhere", "expected"),
    [
        # The default of PostgreSQL: compiling a statement takes a hundred times as long as running it.
        pytest.param("jit", "on", "off", id="compiled-statements"),
        pytest.param("random_page_cost", "4", "1.1", id="costs-of-a-hard-disk"),
        pytest.param("timezone", "Asia/Tokyo", "UTC", id="another-time-zone"),
        pytest.param("client_min_messages", "error", "warning", id="no-warnings"),
        pytest.param("statement_timeout", "0", "15s", id="no-time-limit"),
    ],
)
async def test_a_session_has_settings_of_its_own(
    empty_database_url: str, name: str, elsewhere: str, expected: str, lookups_only: bool
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as administrator:
        database = sql.Identifier(administrator.info.dbname)
        setting = sql.SQL("ALTER DATABASE {} SET {} = {}").format(
            database, sql.Identifier(name), sql.Literal(elsewhere)
        )
        administrator.execute(setting)
    async with await connect(empty_database_url, "test", lookups_only=lookups_only) as connection:
        assert await (await connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(name)))).fetchone() == (
            expected,
        )
