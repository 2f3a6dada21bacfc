"""Reports on a streaming replica."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from registry.postgres import config as embedded_config
from registry.postgres.account import account_for
from registry.postgres.binaries import find_binaries
from registry.postgres.server import EmbeddedPostgres
from tests.databases import with_database
from tests.folders import data_folder
from tests.reporting.outsiders import CRD, VIEW, logged_in
from tests.reporting.reports import Reports

PATIENCE_SECONDS = 120.0
NAMES = f"SELECT name FROM {VIEW} ORDER BY name"


@contextlib.contextmanager
def standby_of(primary: str, folder: Path) -> Iterator[str]:
    """The URL of a server that follows another; made as docs/sql.md says."""
    account = account_for(None)
    with psycopg.connect(primary) as connection:
        major = connection.info.server_version // 10_000
        allowed = connection.execute(
            "SELECT count(*) FROM pg_hba_file_rules WHERE 'replication' = ANY (database) AND type = 'local'"
        ).fetchone()
    binaries = find_binaries(None, account, folder / "binaries", major=major)
    if not binaries.has("pg_basebackup") or allowed == (0,):
        pytest.skip("this PostgreSQL has no pg_basebackup, or lets nobody replicate")
    account.make_outer_folder(folder)
    account.make_folder(folder / "data")
    done = account.run(
        [
            binaries.program("pg_basebackup"),
            f"--pgdata={folder / 'data'}",
            f"--dbname={primary}",
            "--write-recovery-conf",
            "--wal-method=stream",
            "--checkpoint=fast",
            "--no-sync",
        ],
        environment=embedded_config.environment(),
    )
    assert done.returncode == 0, done.stderr
    with EmbeddedPostgres(
        folder, binaries=binaries.folder, settings={"fsync": "off", "hot_standby_feedback": "on"}
    ) as standby:
        yield standby.url


@pytest.mark.slow
async def test_reports_from_a_replica(reports: Reports, postgres_server: str) -> None:
    outsiders = await logged_in(reports)
    with data_folder() as folder, standby_of(postgres_server, folder / "standby") as url:
        with psycopg.connect(reports.url) as connection:
            database = connection.info.dbname
        replica = with_database(url, database)
        assert [outsiders.ask(who, NAMES, replica) for who in ("one", "some", "all")] == [
            [("of-acme",)],
            [("of-acme",), ("of-beta",)],
            [("of-acme",), ("of-beta",), ("of-gamma",)],
        ]
        await reports.put("acme", CRD, "written-later", {"spec": {"owner": "acme", "token": "geheim"}})
        deadline = time.monotonic() + PATIENCE_SECONDS
        while outsiders.ask("one", NAMES, replica) != [("of-acme",), ("written-later",)]:
            assert time.monotonic() < deadline, "the replica does not follow"
        assert outsiders.ask("one", f"SELECT name FROM {VIEW}_history ORDER BY revision", replica) == [
            ("of-acme",),
            ("written-later",),
        ]
        assert outsiders.ask("one", f"SELECT name FROM {VIEW}_as_of(now()) ORDER BY 1", replica) == [
            ("of-acme",),
            ("written-later",),
        ]
        with outsiders.connection("one", replica) as connection:
            for text in (
                "SELECT * FROM public.objects",
                f"SELECT * FROM reports_all.{VIEW}",
                f"SET ROLE {database}_reports",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(text.encode())
            with pytest.raises(psycopg.Error, match="during recovery"):
                connection.execute(b"BEGIN READ WRITE")
        with psycopg.connect(replica) as administrator, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            administrator.execute("DELETE FROM objects")
