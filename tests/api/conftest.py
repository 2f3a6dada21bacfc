"""An application in this process for each test, over a database of its own that already has the widgets' definition."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from starlette.applications import Starlette

from registry.http.app import create_app
from registry.settings import Settings
from tests.api.client import Client, eventually
from tests.api.widgets import define, widgets_definition
from tests.conftest import _database, drop_database, with_database

_numbers = itertools.count()
TOKEN = "a-token-of-the-tests"


@contextlib.asynccontextmanager
async def running(database_url: str, folder: Path) -> AsyncIterator[Starlette]:
    """A started application; `app.state.stopping` is set before it ends, as the server does."""
    (folder / "admin-token").write_text(TOKEN)
    app = create_app(Settings(data_dir=folder, database_url=database_url, plain_http=True))
    app.state.stopping = asyncio.Event()
    async with app.router.lifespan_context(app):
        try:
            yield app
        finally:
            app.state.stopping.set()


async def furnished(client: Client) -> None:
    """Waits until the tenant's namespaces have all that controllers put there."""

    async def look() -> bool:
        places = {item["metadata"]["name"] for item in (await client.get("/api/v1/namespaces")).ok()["items"]}
        for kind in ("configmaps", "serviceaccounts"):
            items = (await client.get(f"/api/v1/{kind}")).ok()["items"]
            if {item["metadata"]["namespace"] for item in items} != places:
                return False
        return True

    await eventually(look)


@pytest.fixture(scope="session")
def api_template(
    postgres_server: str, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The name of a database in which the tenant `default` has the widgets' definition."""
    # Other folders take these fixtures too; each then has a template of its own.
    name = f"registry_api_template_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template_database))
        )

    async def fill() -> None:
        async with running(with_database(postgres_server, name), tmp_path_factory.mktemp("template")) as app:
            client = Client(app, TOKEN)
            await define(client, widgets_definition())
            # Else a controller would go on in each copy, and write while a test reckons with revisions.
            for tenant in ("default", "system"):
                await furnished(client.of_tenant(tenant))

    with asyncio.Runner() as runner:
        runner.run(fill())
    yield name
    drop_database(postgres_server, name)


@pytest.fixture
def api_database(postgres_server: str, api_template: str) -> Iterator[str]:
    yield from _database(postgres_server, api_template)


@pytest.fixture
async def app(api_database: str, tmp_path: Path) -> AsyncIterator[Starlette]:
    async with running(api_database, tmp_path) as app:
        yield app


@pytest.fixture
def api(app: Starlette) -> Client:
    """The administrator."""
    return Client(app, TOKEN)
