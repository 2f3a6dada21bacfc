"""The functions of registry/store/sql in the database: they are those of the code that has migrated it.

Tables have revisions, functions have not: there is one text of each. They are made when a database comes to the newest
revision, or is found there without them. Servers of the previous release go on calling theirs meanwhile, and find them
(registry/store/sql/former.sql): so functions are replaced in place, and what nobody calls any more goes in the same
transaction. A step down to a revision that was released makes the functions of that release again.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from registry.store.sql import functions, text_of

_FUNCTION: Final = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)", re.MULTILINE)
_TYPE: Final = re.compile(r"^CREATE TYPE (\w+) AS \((.*?)^\);\n", re.MULTILINE | re.DOTALL)

_OURS: Final = """
    SELECT oid::regprocedure::text FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (%s)
"""
# With the transaction that has made or replaced each.
_THERE: Final = """
    SELECT oid::regprocedure::text, xmin::text FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND starts_with(proname, 'registry_')
"""
_ATTRIBUTES: Final = """
    SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def make_functions(connection: Connection) -> None:
    """Makes or replaces all, and drops what is not among them. Functions of reports stay where they are, for views and
    policies hold on to them."""
    before = connection.exec_driver_sql(_THERE).all()
    try:
        with connection.begin_nested():
            _replace(connection)
    except ProgrammingError as error:
        # A function of a release never changes what it returns; that of an unreleased revision may have.
        if not isinstance(error.orig, psycopg.errors.InvalidFunctionDefinition):
            raise
        drop_functions(connection, "registry_")
        _replace(connection)
    for function, _ in set(before) & set(connection.exec_driver_sql(_THERE).all()):
        connection.exec_driver_sql(f"DROP FUNCTION {function}")


def _replace(connection: Connection) -> None:
    schema: str = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for text in functions(schema):
        # exec_driver_sql: the percent signs and colons of the text are its own.
        connection.exec_driver_sql(_without_types(connection, text))


def _without_types(connection: Connection, text: str) -> str:
    """The text without the types that are there: sessions that have prepared statements hold on to them. A type of a
    release never changes, a new one has another name; that of an unreleased revision may differ, and is made again."""
    for name, body in _TYPE.findall(text):
        there = connection.exec_driver_sql(_ATTRIBUTES, (name,)).scalars().all()
        if there and there != [" ".join(line.split()) for line in body.strip().split(",")]:
            drop_functions(connection, "registry_")
        elif there:
            text = _TYPE.sub(lambda found, name=name: "" if found[1] == name else found[0], text)  # type: ignore[misc]
    return text


def make_file(connection: Connection, name: str) -> None:
    """Makes the functions of one file, for a migration that needs them for triggers."""
    schema: str = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    connection.exec_driver_sql(text_of(name, schema))


def have_functions(connection: Connection) -> bool:
    """Whether those are there that servers of this release and of the one before call first."""
    count = connection.exec_driver_sql(_OURS, (["registry_commit", "registry_commit_tenant"],)).scalars().all()
    return len(count) == 4


def restore_functions(connection: Connection, revision: str | None) -> None:
    """Those of a revision below the newest: of one that was released its own, else none."""
    drop_functions(connection, "registry_")
    released = files("migrations.versions").joinpath(f"r{revision}_functions.sql")
    if revision is not None and released.is_file():
        # They stand in the order of their names, whatever calls what.
        connection.exec_driver_sql("SET LOCAL check_function_bodies = off")
        connection.exec_driver_sql(released.read_text("utf-8"))


def drop_functions(connection: Connection, prefix: str = "") -> None:
    """Drops those whose names begin with the prefix, whatever their arguments are, and the types of arguments."""
    texts = "\n".join(functions(""))
    names = [name for name in _FUNCTION.findall(texts) if name.startswith(prefix)]
    for function in connection.exec_driver_sql(_OURS, (names,)).scalars().all():
        connection.exec_driver_sql(f"DROP FUNCTION {function}")
    for name, _ in _TYPE.findall(texts):
        connection.exec_driver_sql(f"DROP TYPE IF EXISTS {name}")
