"""What migrations do with the functions of registry/store/sql: all of them are replaced, or dropped."""

from __future__ import annotations

import re

from sqlalchemy import Connection

from registry.store.sql import functions

_OURS = """
    SELECT oid::regprocedure::text FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (%s)
"""


def replace_functions(connection: Connection) -> str:
    """Returns the quoted name of the schema in which they are."""
    schema: str = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    for text in functions(schema):
        # exec_driver_sql: the percent signs and colons of the text are its own.
        connection.exec_driver_sql(text)
    return schema


def drop_functions(connection: Connection) -> None:
    names = [name for text in functions("") for name in re.findall(r"^CREATE OR REPLACE FUNCTION (\w+)", text, re.M)]
    for function in connection.exec_driver_sql(_OURS, (names,)).scalars().all():
        connection.exec_driver_sql(f"DROP FUNCTION {function}")
