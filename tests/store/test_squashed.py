"""The squashed migration and those that it stands for give one schema, so no database in use notices the squash.

schema_0013.sql is what pg_dump said of a database that had gone through the revisions one by one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from registry.postgres.binaries import SYSTEM_PATTERNS
from registry.store import migrate

ONE_BY_ONE = Path(__file__).with_name("schema_0013.sql")


def dump(url: str) -> str:
    """The schema as pg_dump writes it, by the first that is not older than the server."""
    found = [folder / "pg_dump" for pattern in SYSTEM_PATTERNS for folder in Path("/").glob(pattern[1:])]
    for program in filter(None, [shutil.which("pg_dump"), *map(str, found)]):
        run = subprocess.run([program, "--schema-only", "--no-owner", url], capture_output=True, text=True)
        if run.returncode == 0:
            # Since 2025 pg_dump begins and ends with a random word.
            return re.sub(r"^\\(un)?restrict .*$", "", run.stdout, flags=re.MULTILINE)
    pytest.skip("there is no pg_dump of this server's version")


def without_functions(dumped: str) -> list[str]:
    """The lines of a dump but for functions, which have no revision: they are the code's (migrations/functions.py)."""
    bare = re.sub(r"^CREATE FUNCTION .*?\$(_?)\$.*?\$\1\$;$", "", dumped, flags=re.MULTILINE | re.DOTALL)
    return [line for line in bare.splitlines() if line.strip("-") and "; Type: FUNCTION;" not in line]


def restore(url: str) -> None:
    with psycopg.connect(url) as connection:
        if connection.info.server_version < 150_000:
            pytest.skip("the dump is of PostgreSQL 15, where not everybody may create tables in the schema public")
        connection.execute(ONE_BY_ONE.read_bytes())


@pytest.mark.slow
def test_the_squashed_revision_is_what_the_single_ones_made(empty_database_url: str) -> None:
    restore(empty_database_url)
    assert migrate.current(empty_database_url) == "0013"
    one_by_one = without_functions(dump(empty_database_url))
    migrate.downgrade(empty_database_url, "base")
    migrate.upgrade(empty_database_url, "0013")
    assert without_functions(dump(empty_database_url)) == one_by_one


@pytest.mark.slow
def test_a_database_of_the_single_revisions_comes_to_the_same_head(database_url: str, empty_database_url: str) -> None:
    restore(empty_database_url)
    migrate.upgrade(empty_database_url)
    assert dump(empty_database_url) == dump(database_url)
