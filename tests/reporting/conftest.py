"""A database with reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.databases import drop_database, temporary_database, temporary_roles
from tests.reporting.reports import Reports, open_reports, register_roles


@pytest.fixture(scope="session")
def prepared_copy(postgres_server: str, template_database: str) -> Iterator[tuple[str, str]]:
    """The names of a database that was prepared for reports, and of its copy.

    The roles that own views are named after the database, and belong to the server. So the copy can become a database of
    the first name again, and no other: a third of the processor time of preparing each.
    """

    async def prepare(url: str) -> None:
        async with open_reports(url):
            pass

    with temporary_roles(postgres_server) as roles, temporary_database(postgres_server, template_database) as url:
        register_roles(roles, url)
        with asyncio.Runner() as runner:
            runner.run(prepare(url))
        name = urlsplit(url).path[1:]
        with temporary_database(postgres_server, name) as copy:
            drop_database(postgres_server, name)
            yield name, urlsplit(copy).path[1:]


@pytest.fixture
async def reports(
    roles: Callable[[str], None], postgres_server: str, prepared_copy: tuple[str, str]
) -> AsyncIterator[Reports]:
    name, copy = prepared_copy
    # All that a test creates: not the two roles that the copy has.
    for prefix in (f"login_{name}_", f"{name}_reports_all", f"{name}_reader_all"):
        roles(prefix)
    with temporary_database(postgres_server, copy, name=name) as url:
        async with open_reports(url) as made:
            yield made
