"""Checks whether a database has the newest tables and functions, without Alembic.

Importing Alembic and SQLAlchemy takes a third of the startup time, and nearly every start finds nothing to migrate.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

import psycopg

from registry.store.statements import statement

# The file names of Alembic's revisions carry their numbers: r0020_search.py.
_FILE: Final = re.compile(r"r(\d{4})_\w+\.py")

IS_MADE: Final = statement(
    "is-made",
    "Whether there are a table of revisions and the functions of a server.",
    # Servers of the previous release call some of the same names with other arguments (sql/former.sql).
    "SELECT to_regclass('alembic_version') IS NOT NULL AND ("
    "SELECT count(*) = 4 FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
    " AND proname IN ('registry_commit', 'registry_commit_tenant'))",
)

REVISION: Final = statement("revision", "The revision of the tables.", "SELECT version_num FROM alembic_version")


def newest_revision() -> str:
    names = (_FILE.fullmatch(file.name) for file in files("migrations").joinpath("versions").iterdir())
    return max(name[1] for name in names if name is not None)


def is_newest(url: str) -> bool:
    """Returns whether a migration would change nothing. Raises psycopg.Error if the database cannot be queried."""
    with psycopg.connect(url, application_name="registry migrate", connect_timeout=10) as connection:
        exists = connection.execute(IS_MADE.sql).fetchone()
        return exists == (True,) and connection.execute(REVISION.sql).fetchall() == [(newest_revision(),)]
