"""The ASGI application in the test process, with its own database in which the tenant `default` defines widgets.

A pytest plugin that tests/conftest.py loads, so every folder can use its fixtures.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import pytest_asyncio
from starlette.applications import Starlette

from registry.api.request import Backend
from registry.authorization.tenants import INITIAL_NAMESPACES
from registry.controllers.reporting import ReportingController
from registry.http.app import Application
from registry.settings.declarations import Settings
from tests.api.client import Client, eventually
from tests.api.widgets import WIDGETS, define, widgets_definition
from tests.databases import temporary_database

TOKEN = "a-token-of-the-tests"
_numbers = itertools.count()


@contextlib.asynccontextmanager
async def running(
    database_url: str, folder: Path, *, with_views: bool = False, **settings: Any
) -> AsyncIterator[Starlette]:
    """A started application. As in the server, `app.state.stopping` is set before shutdown.

    Objects are stored with their documents, but the roles and views that show these are made only `with_views`: in a
    new database that takes PostgreSQL as long as the rest of the test.
    """
    _write_token(folder)
    app = Application(Settings(data_dir=folder, database_url=database_url, plain_http=True, **settings))
    controller = ReportingController if with_views else _without_views
    async with contextlib.AsyncExitStack() as stack:
        with mock.patch("registry.http.composition.ReportingController", controller):
            await stack.enter_async_context(app.router.lifespan_context(app))
        try:
            yield app
        finally:
            app.state.stopping.set()


def _without_views(_: Backend) -> contextlib.AbstractAsyncContextManager[None]:
    return contextlib.nullcontext()


def _write_token(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "admin-token").write_text(TOKEN)


@contextlib.asynccontextmanager
async def serving(database_url: str, folder: Path, **settings: Any) -> AsyncIterator[Client]:
    """A started application, as a client with the administrator's token."""
    async with running(database_url, folder, **settings) as app:
        yield Client(app, TOKEN)


async def wait_for_defaults(client: Client) -> None:
    """Waits until controllers have created the default objects in each namespace of the tenant."""

    async def look() -> bool:
        namespaces = {item["metadata"]["name"] for item in (await client.get("/api/v1/namespaces")).ok()["items"]}
        # They are created one after the other, each before what is in it.
        if not namespaces.issuperset(INITIAL_NAMESPACES):
            return False
        for kind, name in (("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")):
            items = (await client.get(f"/api/v1/{kind}?fieldSelector=metadata.name={name}")).ok()["items"]
            if {item["metadata"]["namespace"] for item in items} != namespaces:
                return False
        return True

    await eventually(look)


# Marks tests of a module that share an application: `api`, `tenant_api` and `shared_api` are then clients of it, and
# `api_database` is its database.
shares_application = pytest.mark.asyncio(loop_scope="module")
# Marks tests that share a tenant, too: `api` is then `shared_api`. What they leave in it, other than widgets, is in the way of
# none of the others.
shares_tenant = pytest.mark.shares_tenant
# Marks those in such a module that have one for themselves, as what compares revisions needs: in a new tenant,
# controllers still write.
has_own_application = pytest.mark.asyncio(loop_scope="function")


def _shares_application(request: pytest.FixtureRequest) -> bool:
    marker = request.node.get_closest_marker("asyncio")
    return marker is not None and marker.kwargs == shares_application.kwargs


@pytest.fixture
def api_database(request: pytest.FixtureRequest, postgres_server: str, api_template: str) -> Iterator[str]:
    """The database of `api`."""
    if _shares_application(request):
        yield request.getfixturevalue("module_database")
        return
    with temporary_database(postgres_server, api_template) as url:
        yield url


@pytest.fixture
async def app(api_database: str, tmp_path: Path) -> AsyncIterator[Starlette]:
    async with running(api_database, tmp_path) as app:
        yield app


@pytest.fixture(scope="module")
def module_database(postgres_server: str, api_template: str) -> Iterator[str]:
    with temporary_database(postgres_server, api_template) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_application(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    async with serving(module_database, tmp_path_factory.mktemp("shared")) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def shared_api(module_application: Client) -> AsyncIterator[Client]:
    """An administrator's client of one application for all tests of a module: ten times faster than one for each test.

    For tests that leave only widgets in the namespace `default`; these are deleted after each test.
    """
    yield module_application
    (await module_application.delete(WIDGETS)).ok()


@pytest_asyncio.fixture(loop_scope="module")
async def tenant_api(module_application: Client) -> Client:
    """An administrator's client of a new tenant that defines widgets, in the application shared by the module.

    For tests that need neither their own settings nor a fresh revision counter. They may leave anything in the tenant.
    """
    return await new_tenant(module_application)


async def new_tenant(application: Client) -> Client:
    """Creates a tenant that defines widgets, and returns a client of it with the same token."""
    name = f"t{next(_numbers)}"
    body = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}}
    (await application.of_tenant("system").post("/apis/tenancy.registry/v1/tenants", body)).ok(201)
    client = application.of_tenant(name)
    await define(client, widgets_definition())
    return client


@pytest.fixture
def api(request: pytest.FixtureRequest) -> Client:
    """An administrator's client: `tenant_api` where a test shares its application, `shared_api` where it shares its
    tenant, else one of `app`."""
    if _shares_application(request):
        name = "tenant_api" if request.node.get_closest_marker("shares_tenant") is None else "shared_api"
        client: Client = request.getfixturevalue(name)
        return client
    return Client(request.getfixturevalue("app"), TOKEN)
