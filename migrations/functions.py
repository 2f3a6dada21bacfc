"""The functions of registry/store/sql in the database: they are those of the code that has migrated it.

Tables have revisions, functions have not: there is one text of each. They are made when a database comes to the newest
revision, or is found there without them: a step down drops those that only servers call, and the server of the release
that has that revision makes its own. A change of what they take or give comes with a revision, so that older servers do
not start on them.
"""

from __future__ import annotations

import re
from typing import Final

from sqlalchemy import Connection

from registry.store.sql import functions, text_of

_FUNCTION: Final = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)", re.MULTILINE)
_TYPE: Final = re.compile(r"^CREATE TYPE (\w+)", re.MULTILINE)

_OURS: Final = """
    SELECT oid::regprocedure::text FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (%s)
"""


def make_functions(connection: Connection) -> None:
    """Replaces all. Functions of reports stay where they are, for views and policies hold on to them."""
    drop_functions(connection, "registry_")
    schema: str = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for text in functions(schema):
        # exec_driver_sql: the percent signs and colons of the text are its own.
        connection.exec_driver_sql(text)


def make_file(connection: Connection, name: str) -> None:
    """Makes the functions of one file, for a migration that needs them for triggers."""
    schema: str = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    connection.exec_driver_sql(text_of(name, schema))


def have_functions(connection: Connection) -> bool:
    return bool(connection.exec_driver_sql("SELECT to_regproc('registry_commit') IS NOT NULL").scalar_one())


def drop_functions(connection: Connection, prefix: str = "") -> None:
    """Drops those whose names begin with the prefix, whatever their arguments are, and the types of arguments."""
    texts = "\n".join(functions(""))
    names = [name for name in _FUNCTION.findall(texts) if name.startswith(prefix)]
    for function in connection.exec_driver_sql(_OURS, (names,)).scalars().all():
        connection.exec_driver_sql(f"DROP FUNCTION {function}")
    for name in _TYPE.findall(texts):
        connection.exec_driver_sql(f"DROP TYPE IF EXISTS {name}")
