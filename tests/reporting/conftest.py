"""A database with reports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from tests.reporting.reports import Reports, open_reports


@pytest.fixture
async def reports(roles: Callable[[str], None], database_url: str) -> AsyncIterator[Reports]:
    async with open_reports(roles, database_url) as made:
        yield made
