"""What `registry serve` imports while PostgreSQL starts."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path

import pytest

from registry.cli import server_process
from registry.settings.declarations import Settings


@pytest.mark.parametrize(
    ("folder", "url", "expected"),
    [
        pytest.param("", None, ["application", "registry.store.migrate"], id="new"),
        pytest.param("postgres", None, ["application"], id="existing"),
        pytest.param("", "postgresql://elsewhere/", ["application"], id="external"),
    ],
)
def test_a_new_database_is_created_while_what_makes_its_tables_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, url: str | None, expected: list[str]
) -> None:
    imported: list[str] = []
    (tmp_path / folder).mkdir(exist_ok=True)
    monkeypatch.setattr(importlib, "import_module", imported.append)
    server_process._import_early("application:app", Settings(data_dir=tmp_path, database_url=url))
    for thread in threading.enumerate():
        if thread.name == "imports":
            thread.join()
    assert imported == expected
