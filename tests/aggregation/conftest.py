"""An application that proxies requests of its tenants to a server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.aggregation.backend import Proxied, backend, placed
from tests.application import serving


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxied(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    folder = tmp_path_factory.mktemp("proxied")
    async with backend(folder / "server") as server, serving(module_database, folder, **placed(server)) as application:
        yield Proxied(application, server)
