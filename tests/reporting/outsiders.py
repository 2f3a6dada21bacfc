"""Logins on a database with three tenants, and connecting as each of them with its password."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

import psycopg

from registry.store.connection import connect
from registry.store.reporting.logins import LoginSpec, close_side_doors, grant
from registry.store.types import Actor, ObjectKey, ResourceName, Uid, Write, WriteOperation
from tests.reporting.reports import Reports, definition

CRD = definition(
    "crontabs",
    {
        "spec": {
            "type": "object",
            "properties": {
                "owner": {"type": "string"},
                "token": {"type": "string", "format": "password"},
                "size": {"type": "integer"},
            },
        }
    },
    selectableFields=[{"jsonPath": ".spec.owner"}],
)
VIEW = "crontabs_example_com"


class Outsiders:
    """Logins by the tenants that they see, and how one connects as them."""

    def __init__(self, reports: Reports, prefix: str) -> None:
        self.reports = reports
        self.prefix = prefix
        self.passwords: dict[str, str] = {}

    async def add(self, name: str, tenants: tuple[str, ...] | None, *, across: bool, **more: Any) -> None:
        connection = await connect(self.reports.url, "test")
        try:
            spec = LoginSpec(self.prefix + name, tenants, across, **more)
            self.passwords[name] = await grant(connection, spec)
        finally:
            await connection.close()

    def connection(self, name: str, at: str | None = None, **more: Any) -> psycopg.Connection[Any]:
        """`at` is the URL of another server than the usual one."""
        parts = urlsplit(at or self.reports.url)
        address = parts.netloc.rpartition("@")[2]
        url = parts._replace(netloc=f"{self.prefix}{name}:{quote(self.passwords[name])}@{address}").geturl()
        return psycopg.connect(url, autocommit=True, **more)

    def ask(self, name: str, query: str, at: str | None = None) -> list[tuple[Any, ...]]:
        with self.connection(name, at) as connection:
            return connection.execute(query.encode()).fetchall()


async def logged_in(reports: Reports) -> Outsiders:
    """The logins `one`, `some` and `all`, and an object and a secret of each tenant."""
    with psycopg.connect(reports.url) as one:
        row = one.execute("SELECT current_database()").fetchone()
        assert row is not None
    made = Outsiders(reports, f"login_{row[0]}_")
    for tenant in ("acme", "beta", "gamma"):
        await reports.define(tenant, CRD)
        await reports.put(tenant, CRD, f"of-{tenant}", {"spec": {"owner": tenant, "token": "geheim", "size": 5}})
        await reports.store.commit(
            await reports.tenant(tenant),
            Write(
                WriteOperation.CREATE,
                ResourceName("secrets"),
                ObjectKey("default/s"),
                Actor("a", "b", "create"),
                uid=Uid("u"),
                body='"name":"s"},"data":{"password":"Z2VoZWlt"}}',
            ),
        )
    await reports.reporting.make_wildcard_views()
    connection = await connect(reports.url, "test")
    await close_side_doors(connection, embedded=False)
    await connection.close()
    await made.add("one", ("acme",), across=False)
    await made.add("some", ("acme", "beta"), across=True)
    await made.add("all", None, across=True)
    return made
