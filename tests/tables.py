"""The declared tables, as registry/store/sql/tables.sql shows them, and those of a database, to be compared."""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg

from registry.store.compaction import CHANGES_PARTITION_PREFIX
from registry.store.sql import text_of

# What a table consists of, a row a part: its kind, its name, and all that was said of it.
_PARTS: Final = """
    WITH tables AS (
        SELECT oid, relname FROM pg_class
        WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'p')
            AND NOT starts_with(relname, %(partitions)s) AND relname <> 'alembic_version'
    )
    SELECT 'table', relname, concat_ws(' ', pg_get_partkeydef(oid), array_to_string(c.reloptions, ','))
    FROM tables JOIN pg_class c USING (oid, relname)
    UNION ALL
    SELECT 'column', relname || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod), collname,
        attnotnull, attidentity, attgenerated, pg_get_expr(adbin, adrelid))
    FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        LEFT JOIN pg_collation c ON c.oid = attcollation
    UNION ALL
    SELECT 'index', i.relname, replace(pg_get_indexdef(i.oid), %(schema)s || '.', '')
    FROM tables t JOIN pg_index ON indrelid = t.oid JOIN pg_class i ON i.oid = indexrelid
    UNION ALL
    SELECT 'constraint', conname, pg_get_constraintdef(c.oid)
    FROM tables t JOIN pg_constraint c ON conrelid = t.oid AND contype <> 'n'
"""


def parts_of(connection: psycopg.Connection[Any], schema: str) -> set[tuple[str, str, str]]:
    """Returns the parts of the tables of a schema, without partitions and Alembic's own table."""
    places = {"schema": schema, "partitions": CHANGES_PARTITION_PREFIX}
    return set(connection.execute(_PARTS, places).fetchall())


def create_declared_tables(connection: psycopg.Connection[Any], schema: str) -> None:
    connection.execute(f"CREATE SCHEMA {schema}".encode())
    connection.execute(f"SET LOCAL search_path = {schema}".encode())
    connection.execute(text_of("tables.sql", schema).encode())


def _columns(table: str) -> list[str]:
    return [name for name in re.findall(r"^    (\w+) ", table, re.MULTILINE) if name != "PRIMARY"]


# The declared tables by their names, each with the names of its columns.
TABLES: Final[dict[str, list[str]]] = {
    name: _columns(table)
    for name, table in sorted(
        re.findall(r"^CREATE TABLE (\w+) \((.*?)^\)", text_of("tables.sql", ""), re.MULTILINE | re.DOTALL)
    )
}
TABLES_OF_TENANTS: Final = [name for name, columns in TABLES.items() if "tenant_id" in columns]
