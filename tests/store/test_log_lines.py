"""Shared background work is logged without a request's id, and a fault of many writes is logged once."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import pytest

from registry.logs import TextFormatter, audit_id, begin_request
from registry.store.errors import Unavailable
from registry.store.store import Store
from registry.store.types import Tenant, TenantName
from tests.faults.disturbances import FULL_DISK
from tests.store.writes import create


class Lines(logging.Handler):
    """Formats each record where it is logged, as the server's own handler does."""

    def __init__(self) -> None:
        super().__init__()
        self.formatter = TextFormatter(None)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


async def test_a_full_disk_is_one_line_of_no_request(store: Store, database_url: str) -> None:
    tenant = await store.create_tenant(TenantName("acme"))
    handler = Lines()
    logging.getLogger("registry.store").addHandler(handler)
    try:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(FULL_DISK.encode())
        for number in range(20):
            await asyncio.create_task(_refused(store, tenant, number))
    finally:
        logging.getLogger("registry.store").removeHandler(handler)
    [line] = [line for line in handler.lines if "PostgreSQL refuses writes" in line]
    assert "No space left on device" in line
    assert "request=" not in line
    assert "No space" in str(store.problems()["disk"]())
    assert store.problems()["writes"]() is None


async def _refused(store: Store, tenant: Tenant, number: int) -> None:
    begin_request()
    assert audit_id()
    with pytest.raises(Unavailable, match="No space"):
        await store.commit(tenant, create(f"ns/{number}"))


async def test_an_outage_is_not_logged_by_each_background_task(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("registry.store.background")
    store.database.log_failure(logger, "the sweep failed: %s", "a reason")
    store.database.away = "PostgreSQL is away"
    store.database.log_failure(logger, "the sweep failed: %s", "another reason")
    store.database.away = None
    assert [record.getMessage() for record in caplog.records] == ["the sweep failed: a reason"]
