"""A tenant that shares its definition."""

from __future__ import annotations

import pytest

from tests.api.client import Client
from tests.tenancy.providers import make_provider


@pytest.fixture
async def provider(api: Client) -> Client:
    return await make_provider(api)
