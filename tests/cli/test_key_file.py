"""The key file of a data directory: created at the first start, required later, reported in one line if missing."""

from __future__ import annotations

import json
import logging
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.cli import root as cli
from registry.http import encryption
from registry.postgres.folder import running_url
from registry.settings.declarations import Settings, SettingsError
from registry.store.encryption import master_keys
from tests.folders import data_folder
from tests.running import RunningServer, prepare_postgres, running_server, start_server

SECRETS = "/api/v1/namespaces/default/secrets"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"
SEALED, PLAIN = 1, 0


@pytest.fixture
def folder() -> Iterator[Path]:
    with data_folder() as made:
        yield made / "data"


def ask(server: RunningServer, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    request = urllib.request.Request(
        server.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": f"Bearer {server.token}", "content-type": "application/json"},
    )
    context = ssl.create_default_context(cafile=server.authority)
    with urllib.request.urlopen(request, timeout=60, context=context) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def make_token(server: RunningServer) -> None:
    ask(server, TOKENS, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})


def make_secret(server: RunningServer) -> None:
    ask(server, SECRETS, {"metadata": {"name": "a"}, "stringData": {"x": "hidden"}})


def signing_keys(url: str) -> list[int]:
    """The first byte of each key of tokens: whether it is sealed. The secret of the front proxy is, too."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT secret, isfinite(verifies_until) FROM signing_keys").fetchall()
    assert [secret[0] for secret, rotates in rows if not rotates] in ([], [SEALED])
    return [secret[0] for secret, rotates in rows if rotates]


def refused(folder: Path) -> str:
    """What a start says that fails: one line."""
    with pytest.raises(RuntimeError):
        start_server(folder)
    said = (folder / "server.log").read_text()
    assert "Traceback" not in said
    return next(line for line in said.splitlines() if line.startswith("registry: "))


def test_a_new_folder_has_a_key_file_and_cannot_be_served_without(folder: Path) -> None:
    file = folder / "encryption-keys"
    folder.mkdir()
    prepare_postgres(folder)
    with running_server(folder) as server:
        assert file.stat().st_mode & 0o777 == 0o600
        assert str(file) in server.log
        assert "nothing is encrypted" not in server.log
        make_secret(server)
        make_token(server)
        found = running_url(folder / "postgres")
        assert found is not None
        assert signing_keys(found[0]) == [SEALED]
        with psycopg.connect(found[0]) as connection:
            body = connection.execute("SELECT body FROM objects WHERE resource = 'secrets'").fetchone()
        assert body is not None
        assert body[0].startswith('"sealed":"')
        # The commands find the file by themselves.
        for words in (["token", "rotate-keys"], ["encryption", "status"]):
            done = subprocess.run(
                [sys.executable, "-m", "registry", *words, "--data-dir", str(folder)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        assert signing_keys(found[0]) == [SEALED, SEALED]
    kept = file.read_text()
    name = kept.partition(":")[0]
    file.unlink()
    (folder / "server.log").unlink()
    assert refused(folder) == (
        f"registry: the database is encrypted by the master key {name}, which is missing: "
        f"bring back {file}, or name the file by --encryption-key-file"
    )
    assert not file.exists()
    file.write_text(master_keys.generate(name))
    (folder / "server.log").unlink()
    assert refused(folder) == (
        f"registry: the database is encrypted by another key than the master key {name} that is "
        f"listed: bring back the {file} that it was served with"
    )
    file.write_text(kept)
    with running_server(folder) as server:
        assert ask(server, f"{SECRETS}/a")["data"] == {"x": "aGlkZGVu"}


def prepared(url: str, folder: Path, **more: Any) -> Path | None:
    """As `registry serve` does with the embedded database at this URL."""
    return encryption.prepare(Settings(data_dir=folder, **more), url, {})


def add_plain_key(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO signing_keys (id, secret, signs_from, signs_until, verifies_until)"
            " VALUES ('k', '\\x00616263', now(), now() + '1 day', now() + '1 day')"
        )


def use(url: str) -> None:
    """The database of a folder that was served before."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "WITH made AS (INSERT INTO domains (revision) SELECT 0 RETURNING id)"
            " INSERT INTO tenants (name, domain_id) SELECT 'old', id FROM made"
        )
        connection.execute(
            "INSERT INTO objects (tenant_id, resource, key, uid, revision, version, schema_id, body,"
            " created_at, updated_at)"
            " SELECT id, 'namespaces', 'a', 'u', 1, 'v1', 0, '', now(), now() FROM tenants"
        )


def test_an_older_folder_works_without_a_key_file_and_warns(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    use(database_url)
    add_plain_key(database_url)
    with caplog.at_level(logging.WARNING):
        assert prepared(database_url, tmp_path) is None
    assert not (tmp_path / "encryption-keys").exists()
    assert str(tmp_path / "encryption-keys") in caplog.text
    assert signing_keys(database_url) == [PLAIN]
    # Once its owner has made the file, the keys are sealed by it.
    (tmp_path / "encryption-keys").write_text(master_keys.generate("mine"))
    assert prepared(database_url, tmp_path) == tmp_path / "encryption-keys"
    assert signing_keys(database_url) == [SEALED]


def test_an_existing_key_file_is_never_replaced(database_url: str, tmp_path: Path) -> None:
    first = prepared(database_url, tmp_path)
    assert first is not None
    kept = first.read_text()
    encryption._make_key_file(first)
    assert first.read_text() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["encryption-keys"]


def test_an_external_database_gets_no_key_automatically(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_plain_key(database_url)
    with caplog.at_level(logging.WARNING):
        assert prepared(database_url, tmp_path, database_url=database_url) is None
    assert "--encryption-key-file" in caplog.text
    # Other servers may not have the key yet: what is there is left to `registry encryption rotate`.
    keys = tmp_path / "keys"
    keys.write_text(master_keys.generate("mine"))
    assert prepared(database_url, tmp_path, database_url=database_url, encryption_key_file=keys) == keys
    assert signing_keys(database_url) == [PLAIN]


def test_a_signing_key_alone_needs_its_master_key(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys"
    keys.write_text(master_keys.generate("mine"))
    named = ["--database-url", database_url, "--data-dir", str(tmp_path)]
    assert cli.main(["token", "rotate-keys", *named, "--encryption-key-file", str(keys)]) == 0
    assert signing_keys(database_url) == [SEALED]
    with pytest.raises(SettingsError, match="the master key mine, which is missing: name its file by"):
        prepared(database_url, tmp_path, database_url=database_url)
    # Nor is another key added that would not be sealed.
    capsys.readouterr()
    assert cli.main(["token", "rotate-keys", *named]) == 1
    assert "the master key mine, which is missing" in capsys.readouterr().err
    assert signing_keys(database_url) == [SEALED]
