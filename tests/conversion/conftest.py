"""A webhook over real TLS, and an application that may call it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Client
from tests.application import serving
from tests.conversion.webhook import Webhook
from tests.https import serving_https


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    """The example, on a port of its own with a certificate of its own CA."""
    with serving_https(Webhook, tmp_path / "webhook") as served:
        yield served


@pytest.fixture
def definition(webhook: Webhook) -> dict[str, Any]:
    return webhook.definition()


@pytest.fixture
async def api(api_database: str, tmp_path: Path, webhook: Webhook) -> AsyncIterator[Client]:
    """A server that may call webhooks on this machine. It ends before the webhook, which waits for its connections."""
    async with serving(api_database, tmp_path, allow_egress_to=("127.0.0.0/8",)) as client:
        yield client


@pytest.fixture
async def guarded(api_database: str, tmp_path: Path, webhook: Webhook) -> AsyncIterator[Client]:
    """A server whose operator has allowed nothing."""
    async with serving(api_database, tmp_path) as client:
        yield client
