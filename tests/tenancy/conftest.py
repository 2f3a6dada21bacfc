"""A tenant that shares a definition with others."""

from __future__ import annotations

import pytest

from tests.api.client import Client
from tests.tenancy.providers import make_provider


@pytest.fixture
async def provider(api: Client) -> Client:
    """A tenant that exports widgets to everybody, in the domain `shop`."""
    return await make_provider(api)
