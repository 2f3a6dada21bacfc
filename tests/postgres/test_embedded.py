"""The life cycle of the embedded PostgreSQL, with real servers and real kills.

The tests of this module share one folder, since making one takes the longest; each starts and ends a server in it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from registry.postgres import server as embedded
from registry.postgres.folder import EmbeddedPostgresError, running_url
from registry.postgres.processes import PROCESS_BYTES
from registry.postgres.server import EmbeddedPostgres
from tests.folders import data_folder
from tests.processes import ROOT, alive, children, wait_until
from tests.replication import free_port

pytestmark = pytest.mark.slow

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as somebody else")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where a server has run once; the table `kept` holds the row 'first'."""
    with data_folder() as outer:
        unfinished = outer / "postgres" / "data.new"  # A first start that broke off is repeated.
        unfinished.mkdir(parents=True)
        (unfinished / "PG_VERSION").write_text("15\n")
        (outer / "postgres").chmod(0o711)
        with server_in(outer / "postgres") as server, psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept (word text)")
            connection.execute("INSERT INTO kept VALUES ('first')")
        yield outer / "postgres"


@contextlib.contextmanager
def server_in(folder: Path, *, port: int | None = None, **settings: str) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(folder, port=port, settings={"fsync": "off", **settings}) as server:
        yield server


@contextlib.contextmanager
def owner_of(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that serves the folder, and the process number of its PostgreSQL."""
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.owner_process", str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert owner.stdout is not None
        yield owner, int(owner.stdout.readline())
    finally:
        owner.kill()
        owner.communicate()


def value(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def test_data_survives_a_restart(folder: Path) -> None:
    with EmbeddedPostgres(folder) as server:
        assert value(server.url, "SELECT word FROM kept") == "first"
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert value(server.url, f"SHOW {name}") == "on", "what is acknowledged is on disk"
        pid = server.pid
    assert pid is not None
    assert not alive(pid)


def test_its_files_are_private(folder: Path) -> None:
    for name in ("password", "postgres.log", "postgresql.conf", "pg_hba.conf", "data"):
        assert stat.S_IMODE((folder / name).stat().st_mode) & stat.S_IRWXO == 0, name
    assert stat.S_IMODE((folder / "run").stat().st_mode) == 0o700


@as_root
def test_root_does_not_run_it_as_root(folder: Path) -> None:
    with server_in(folder) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0
        assert (folder / "data").stat().st_uid == Path(f"/proc/{server.pid}").stat().st_uid
        assert folder.stat().st_uid == 0, "what root writes must not be replaceable by the account"


def test_a_second_start_names_the_process_that_uses_the_folder(folder: Path) -> None:
    with server_in(folder) as server:
        with pytest.raises(EmbeddedPostgresError, match=rf"another process \(pid {os.getpid()}\) already serves"):
            EmbeddedPostgres(folder).start()
        assert running_url(folder) == (server.url, server.binaries.folder), "other processes find it"
        server.stop()
        assert running_url(folder) is None
    # The block's own stop was the second one.


def test_it_is_restarted_after_a_kill(folder: Path) -> None:
    with server_in(folder) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("INSERT INTO kept VALUES ('before the crash')")
        killed = server.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)

        def answers() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                return value(server.url, "SELECT count(*) FROM kept WHERE word = 'before the crash'") == 1
            return False

        wait_until(lambda: server.pid not in (None, killed) and answers(), "a new server with the old data")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT])
def test_a_stop_in_the_middle_of_a_crash_ends_everything(folder: Path, number: signal.Signals) -> None:
    with server_in(folder) as server:
        pid = server.pid
        assert pid is not None
        os.kill(pid, number)
        server.stop()
        assert server.pid is None
        assert running_url(folder) is None


def test_it_ends_when_its_owner_is_killed(folder: Path) -> None:
    with owner_of(folder) as (owner, pid):
        owner.kill()
        wait_until(lambda: not alive(pid), "the end of PostgreSQL")


def test_a_start_right_after_the_owner_was_killed_waits_for_the_old_server(folder: Path) -> None:
    with owner_of(folder) as (owner, _):
        owner.kill()
        owner.wait()
        with server_in(folder) as server:
            assert value(server.url, "SELECT word FROM kept") == "first"


def test_an_orphan_is_ended_by_the_next_start(folder: Path) -> None:
    with owner_of(folder) as (owner, pid):
        for watchdog in children(owner.pid, "registry-watchdog"):
            os.kill(watchdog, signal.SIGKILL)
        owner.kill()
        owner.wait()
        assert alive(pid)
        with server_in(folder) as server:
            assert not alive(pid)
            assert value(server.url, "SELECT word FROM kept") == "first"


def test_the_next_start_recovers_from_a_crash_of_all_processes(folder: Path) -> None:
    with owner_of(folder) as (owner, pid):
        url, _ = running_url(folder) or ("", None)
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO kept VALUES ('all killed')")
        for watchdog in children(owner.pid, "registry-watchdog"):
            os.kill(watchdog, signal.SIGKILL)
        owner.send_signal(signal.SIGSTOP)  # It must not start PostgreSQL again.
        os.kill(pid, signal.SIGKILL)
        owner.kill()
        owner.wait()
        with server_in(folder) as server:
            assert value(server.url, "SELECT count(*) FROM kept WHERE word = 'all killed'") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit what a process allocates")
def test_a_query_that_needs_too_much_memory_fails_alone(folder: Path) -> None:
    with server_in(folder) as server, psycopg.connect(server.url, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.OutOfMemory):
            connection.execute(f"SELECT length(repeat('x', {PROCESS_BYTES - 1000}))".encode())
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_long_log_is_shortened_while_it_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "PROGRAMS_SECONDS", 0.05)
    monkeypatch.setattr(embedded, "LOG_LIMIT_BYTES", 20_000)
    log, older = folder / "postgres.log", folder / "postgres.log.1"
    older.unlink(missing_ok=True)
    with server_in(folder) as server, psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(b"DO $$ BEGIN RAISE LOG 'the first %', repeat('x', 30000); END $$")
        wait_until(older.exists, "the older log")
        wait_until(lambda: log.stat().st_size == 0, "the shortened log")
        connection.execute(b"DO $$ BEGIN RAISE LOG 'the second'; END $$")
        wait_until(lambda: "the second" in log.read_text(), "what is logged afterwards")
        assert older.stat().st_size == 20_000
        assert stat.S_IMODE(older.stat().st_mode) & stat.S_IRWXO == 0


def test_report_logins_leave_connections_to_the_server(folder: Path) -> None:
    with server_in(folder) as server:
        assert value(server.url, "SHOW superuser_reserved_connections") == "30"
        assert value(server.url, "SHOW authentication_timeout") == "15s"


@pytest.mark.parametrize("content", ["", "999999999\n"], ids=["empty", "stale"])
def test_a_broken_or_stale_pid_file_does_not_prevent_a_start(folder: Path, content: str) -> None:
    status = folder / "data" / "postmaster.pid"
    status.write_text(content)
    with server_in(folder) as server:
        assert status.read_text().startswith(f"{server.pid}\n")


def test_settings_of_the_administrator_take_precedence(folder: Path) -> None:
    local = folder / "local.conf"
    local.write_text("work_mem = '7MB'\nmax_connections = 33\n")
    local.chmod(0o644)
    try:
        with server_in(folder, work_mem="5MB", temp_buffers="9MB") as server:
            assert value(server.url, "SHOW work_mem") == "7MB"
            assert value(server.url, "SHOW temp_buffers") == "9MB"
            assert value(server.url, "SHOW max_connections") == "33"
    finally:
        local.unlink()


def test_settings_that_it_refuses_are_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "START_RETRY_SECONDS", 0.0)
    with pytest.raises(EmbeddedPostgresError, match="no_such_setting"), server_in(folder, no_such_setting="1"):
        pass
    assert running_url(folder) is None


def test_the_tcp_port_requires_the_password(folder: Path) -> None:
    port = free_port()
    with server_in(folder, port=port) as server:
        password = (folder / "password").read_text().strip()
        assert value(f"postgresql://registry:{password}@127.0.0.1:{port}/registry", "SELECT current_user") == "registry"
        assert value(server.url, "SELECT current_user") == "registry"
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://registry:wrong@127.0.0.1:{port}/registry")
    with server_in(folder) as server:
        assert value(server.url, "SHOW listen_addresses") == ""


def test_the_socket_of_a_long_path_is_in_another_folder(folder: Path) -> None:
    long = folder.with_name("long-" * 20)
    folder.rename(long)
    elsewhere = None
    try:
        with server_in(long) as server:
            assert value(server.url, "SELECT 1") == 1
        elsewhere = Path((long / "run-elsewhere").read_text().strip())
        assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
        with server_in(long) as server:
            assert str(elsewhere).replace("/", "%2F") in server.url, "the place is kept"
    finally:
        long.rename(folder)
        if elsewhere is not None:
            elsewhere.rmdir()


def test_a_folder_with_other_data_is_left_alone() -> None:
    with data_folder() as outer:
        (outer / "postgres" / "data").mkdir(parents=True)
        (outer / "postgres" / "data" / "letter.txt").write_text("dear")
        with pytest.raises(EmbeddedPostgresError, match="holds no PostgreSQL data: move it away"):
            EmbeddedPostgres(outer / "postgres").start()
        assert (outer / "postgres" / "data" / "letter.txt").read_text() == "dear"
        assert running_url(outer / "postgres") is None


@as_root
def test_an_inaccessible_folder_is_named_in_the_error() -> None:
    with data_folder() as outer:
        outer.chmod(0o700)
        with pytest.raises(EmbeddedPostgresError, match=r"cannot reach .*--data-dir.*--postgres-user"):
            EmbeddedPostgres(outer / "postgres").start()
