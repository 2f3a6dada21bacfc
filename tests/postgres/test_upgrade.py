"""Upgrading PostgreSQL's package under a running server: sessions continue, then it restarts on the new binaries."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from registry.postgres import server
from registry.postgres.account import account_for
from registry.postgres.binaries import find_binaries
from registry.postgres.server import EmbeddedPostgres
from tests.folders import data_folder
from tests.processes import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def package() -> Iterator[Path]:
    """A PostgreSQL of our own to replace files of: the folder of its programs. It finds the rest relative to them."""
    with data_folder() as folder:
        found = find_binaries(None, account_for(None), folder / "copies")
        installed = (
            found.folder.parent
        )  # /usr/lib/postgresql/15, with bin and lib; share is in /usr/share/postgresql/15
        share = Path("/usr/share/postgresql") / str(found.major)
        if not (installed / "lib" / "plpgsql.so").exists() or not share.exists():
            pytest.skip(f"{installed} is not laid out as Debian's package")
        root = folder / "usr"
        shutil.copytree(installed, root / "lib" / "postgresql" / str(found.major), symlinks=True)
        (root / "share" / "postgresql").mkdir(parents=True)
        (root / "share" / "postgresql" / str(found.major)).symlink_to(share)
        yield root / "lib" / "postgresql" / str(found.major) / "bin"


def _replace(path: Path, content: bytes | None = None) -> None:
    """As packagers do: another file under the same name."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(path.read_bytes() if content is None else content)
    new.chmod(0o755)
    new.replace(path)


def _run_plpgsql(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DO $$ BEGIN PERFORM 1; END $$")


def _serves(url: str) -> bool:
    try:
        _run_plpgsql(url)
    except psycopg.OperationalError:
        return False
    return True


def test_new_sessions_work_while_libraries_are_being_replaced(package: Path) -> None:
    with EmbeddedPostgres(package.parents[4] / "data", binaries=package, settings={"fsync": "off"}) as running:
        _replace(package.parent / "lib" / "plpgsql.so", b"of another release")
        _run_plpgsql(running.url)


def test_it_restarts_on_replaced_programs(
    package: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "PROGRAMS_SECONDS", 0.2)
    with EmbeddedPostgres(package.parents[4] / "data", binaries=package, settings={"fsync": "off"}) as running:
        first = running.pid
        with caplog.at_level(logging.WARNING):
            _replace(package / "postgres")
            wait_until(lambda: running.pid not in (None, first) and _serves(running.url), "the restart")
        assert "have been replaced" in caplog.text
        assert "unexpectedly" not in caplog.text


@pytest.mark.parametrize(
    "content", [b"#!/bin/sh\necho 'postgres (PostgreSQL) 99.1'\n", b"broken"], ids=["99", "broken"]
)
def test_it_keeps_running_while_programs_are_missing(
    package: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PROGRAMS_SECONDS", 0.05)
    looked: list[str | None] = []
    usable = EmbeddedPostgres._usable_version

    def look(running: EmbeddedPostgres) -> str | None:
        looked.append(usable(running))
        return looked[-1]

    monkeypatch.setattr(EmbeddedPostgres, "_usable_version", look)
    with EmbeddedPostgres(package.parents[4] / "data", binaries=package, settings={"fsync": "off"}) as running:
        first = running.pid
        _replace(package / "postgres", content)
        wait_until(lambda: len(looked) >= 2, "that it looks")
        assert set(looked) == {None}
        assert running.pid == first
        _run_plpgsql(running.url)
