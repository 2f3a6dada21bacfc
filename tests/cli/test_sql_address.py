"""The URL of `registry sql grant`: for whom it works, and what comes in from elsewhere.

127.0.0.2 and 127.0.0.3 stand for two machines: addresses of this one that the embedded PostgreSQL does not take for its
own.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from registry.cli.sql_commands import Listening, login_url
from registry.http.serving.tls import ensure_certificates
from registry.postgres.account import account_for
from registry.postgres.binaries import find_binaries
from registry.postgres.config import has_tls
from tests.folders import data_folder
from tests.processes import registry, wait_until
from tests.replication import free_port
from tests.running import RunningServer, running_server

SOCKET_URL = "postgresql://registry@/registry?host=%2Fdata%2Frun&port=5433"


@pytest.mark.parametrize(
    ("url", "listening", "password", "wanted"),
    [
        pytest.param(SOCKET_URL, None, "x", "postgresql://bi:x@/registry?host=%2Fdata%2Frun", id="socket"),
        pytest.param(
            SOCKET_URL, Listening("127.0.0.1", 5433), "x/y", "postgresql://bi:x%2Fy@127.0.0.1:5433/registry", id="local"
        ),
        pytest.param(
            SOCKET_URL,
            Listening("db.example.com", 5432),
            "x",
            "postgresql://bi:x@db.example.com:5432/registry?sslmode=require&channel_binding=require",
            id="elsewhere",
        ),
        pytest.param(
            SOCKET_URL,
            Listening("fd00::7", 5432),
            None,
            "postgresql://bi@[fd00::7]:5432/registry?sslmode=require&channel_binding=require",
            id="IPv6, password known",
        ),
        pytest.param(
            "postgresql://admin:secret@db.example.com/registry", None, "x", "postgresql://bi:x@db.example.com/registry",
            id="a database of the user's own",
        ),
    ],
)  # fmt: skip
def test_url(url: str, listening: Listening | None, password: str | None, wanted: str) -> None:
    assert login_url(url, listening, "bi", password) == wanted


@pytest.fixture(scope="module")
def with_tls() -> None:
    """Skips where the embedded PostgreSQL has no TLS, such as that of the wheel."""
    account = account_for(None)
    with data_folder() as folder:
        account.make_folder(folder / "data")
        (folder / "data" / "postgresql.conf").touch(0o644)
        found = find_binaries(None, account, folder / "copies")
        if not has_tls(found, account, folder / "data"):
            pytest.skip(f"PostgreSQL {found.version} in {found.folder} has no TLS")


@pytest.fixture(scope="module")
def server(with_tls: None) -> Iterator[RunningServer]:
    """Its PostgreSQL can be reached at 127.0.0.2."""
    arguments = ("--postgres-host", "127.0.0.2", "--postgres-port", str(free_port()))
    with data_folder() as folder, running_server(folder / "data", *arguments) as running:
        yield running


def _grant(server: RunningServer, name: str) -> tuple[str, str]:
    done = registry("sql", "grant", name, "--tenant", "default", "--data-dir", server.data_dir)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


@pytest.mark.slow
def test_the_url_works_elsewhere_and_is_encrypted(server: RunningServer) -> None:
    url, said = _grant(server, "bi")
    assert urlsplit(url).hostname == "127.0.0.2"
    assert "This URL works wherever 127.0.0.2 leads to this machine." in said
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT session_user, s.ssl FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()"
        ).fetchone()
        assert row == ("bi", True)
        assert connection.execute("SELECT count(*) FROM reports.definitions").fetchone() is not None
    verified = url.replace("channel_binding=require", f"sslrootcert={server.authority}")
    with psycopg.connect(verified.replace("sslmode=require", "sslmode=verify-full")) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")
def test_the_url_works_for_another_account(server: RunningServer) -> None:
    psql = shutil.which("psql", path="/usr/bin:/usr/local/bin")
    if psql is None:
        pytest.skip("PostgreSQL's client is not installed for all accounts")
    url, _ = _grant(server, "other")
    nobody = pwd.getpwnam("nobody")
    done = subprocess.run(
        [psql, "-X", "-At", url, "-c", "SELECT session_user"],
        user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], cwd="/", env={"HOME": "/nonexistent"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "other\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("user", "why"),
    [pytest.param("bi", "no encryption", id="login, not encrypted"), pytest.param("registry", "rejects", id="owner")],
)
def test_what_is_refused_from_elsewhere(server: RunningServer, user: str, why: str) -> None:
    url, _ = _grant(server, "bi")
    assert why in _first_answer((urlsplit(url).hostname or "", urlsplit(url).port or 0), user)


def _first_answer(address: tuple[str, int], user: str) -> str:
    """What PostgreSQL answers to the start of a session without TLS, from another address than loopback."""
    packet = struct.pack("!i", 196608) + f"user\0{user}\0database\0registry\0\0".encode()
    with socket.create_connection(address, timeout=60, source_address=("127.0.0.3", 0)) as connection:
        connection.sendall(struct.pack("!i", len(packet) + 4) + packet)
        return connection.makefile("rb").read().decode(errors="replace")


@pytest.mark.slow
def test_a_renewed_certificate_is_served(server: RunningServer) -> None:
    copy = server.data_dir / "postgres" / "server.crt"
    before = copy.read_bytes()
    ensure_certificates(server.data_dir, "127.0.0.1", ("127.0.0.2", "later.example.com"))
    assert (server.data_dir / "tls" / "server.crt").read_bytes() != before
    wait_until(lambda: copy.read_bytes() != before, "PostgreSQL has the renewed certificate")
    url, _ = _grant(server, "bi")
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
def test_on_loopback_any_account_can_use_the_url(with_tls: None) -> None:
    arguments = ("--postgres-port", str(free_port()))
    with data_folder() as folder, running_server(folder / "data", *arguments) as server:
        url, said = _grant(server, "bi")
        assert "works for every account of this machine" in said
        assert (urlsplit(url).hostname, parse_qs(urlsplit(url).query)) == ("127.0.0.1", {})
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT s.ssl FROM pg_stat_ssl s WHERE s.pid = pg_backend_pid()").fetchone()
            assert row == (True,)
