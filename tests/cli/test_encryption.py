"""`registry encryption`, and a server that is configured to encrypt."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.cli import root as cli
from registry.cli.commands import encryption as commands
from registry.http import encryption
from registry.settings.declarations import Settings, SettingsError
from registry.store.encryption import resealing
from registry.store.errors import Unreadable
from tests.application import serving

SECRETS = "/api/v1/namespaces/default/secrets"


def run(*words: str) -> int:
    typed = vars(cli.parser().parse_args(["encryption", *words]))
    typed.pop("command")
    return commands.run(typed)


async def serve_once(url: str, folder: Path, name: str, **settings: Any) -> None:
    """Starts the application, makes a secret, reads all there are."""
    async with serving(url, folder, **settings) as api:
        made = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name}, "stringData": {"x": "hidden"}}
        (await api.post(SECRETS, made)).ok(201)
        for item in (await api.get(SECRETS)).ok()["items"]:
            assert item["data"] == {"x": "aGlkZGVu"}


def test_encrypting_existing_data_and_rotating_the_key(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resealing, "CURRENT_SECONDS", -1.0)
    monkeypatch.delenv(encryption.KEYS_VARIABLE, raising=False)
    file = tmp_path / "keys"
    asyncio.run(serve_once(database_url, tmp_path, "plain"))
    assert run("generate-key", "one") == 0
    one = capsys.readouterr().out
    file.write_text(one)
    asyncio.run(serve_once(database_url, tmp_path, "sealed", encryption_key_file=file))
    named = ("--database-url", database_url, "--encryption-key-file", str(file))
    assert run("rotate", *named, "--rate", "100000") == 0
    printed = capsys.readouterr()
    assert "objects and" in printed.out
    done, total = re.fullmatch(r"(\d+) of (\d+) objects and changes sealed", printed.err.splitlines()[-1]).groups()  # type: ignore[union-attr]
    assert done == total != "0"
    with psycopg.connect(database_url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM objects WHERE resource = 'secrets' AND body LIKE %s", ['"sealed":"1.%']
        ).fetchone()
        assert found == (2,)
        assert connection.execute(
            "SELECT count(*) FROM changes WHERE body LIKE %s OR previous_body LIKE %s", ["%aGlkZGVu%"] * 2
        ).fetchone() == (0,)
    assert run("generate-key", "two") == 0
    two = capsys.readouterr().out
    file.write_text(two + one)
    assert run("rotate", *named, "--rate", "100000") == 0
    capsys.readouterr()
    assert run("status", *named) == 0
    said = capsys.readouterr().out
    assert "one: 0 keys wrapped\n" in said
    assert "keys wrapped, seals\n" in said
    assert "rotation: finished" in said
    file.write_text(two)
    asyncio.run(serve_once(database_url, tmp_path, "later", encryption_key_file=file))
    with pytest.raises(Unreadable):
        asyncio.run(serve_once(database_url, tmp_path, "never"))


def test_wrong_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(encryption.KEYS_VARIABLE, raising=False)
    with pytest.raises(SettingsError, match="at most 32"):
        run("generate-key", "a name")
    with pytest.raises(SettingsError, match="there are no keys"):
        run("rotate", "--data-dir", str(tmp_path))
    with pytest.raises(SettingsError, match="cannot be read"):
        run("rotate", "--data-dir", str(tmp_path), "--encryption-key-file", str(tmp_path / "absent"))
    monkeypatch.setenv(encryption.KEYS_VARIABLE, "nonsense")
    with pytest.raises(SettingsError, match="line 1"):
        run("rotate", "--data-dir", str(tmp_path))
    with pytest.raises(SettingsError, match="cannot be encrypted"):
        run("rotate", "--data-dir", str(tmp_path), "--encrypt-resources", "secrets,namespaces")


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from registry.store.encryption import master_keys

    keys = f"{master_keys.generate('b')},{master_keys.generate('a')}"
    found = encryption.encryption_of(Settings(data_dir=tmp_path), {encryption.KEYS_VARIABLE: keys})
    assert found is not None
    assert (found.masters.first, found.resources) == ("b", frozenset({"secrets"}))
