"""Rates of tenants: beyond one the answer is 429."""

from __future__ import annotations

import asyncio

import pytest

from registry.flowcontrol.fair_queue import TooManyRequests
from registry.flowcontrol.rates import Rates
from tests.api.client import Client
from tests.api.errors import failure
from tests.tenancy.tenants import CONFIG_MAPS, make


def tenant_with(**rates: int) -> tuple[int, dict[str, int]]:
    return 1, rates


def test_requests_a_second() -> None:
    rates, tenant = Rates(), tenant_with(requestsPerSecond=5)
    for _ in range(5):
        rates.enter(*tenant, 10.0, watch=False)
    with pytest.raises(TooManyRequests) as refused:
        rates.enter(*tenant, 10.0, watch=False)
    assert refused.value.retry_after_seconds == 1
    rates.enter(*tenant, 10.21, watch=False)
    with pytest.raises(TooManyRequests):
        rates.enter(*tenant, 10.22, watch=False)


def test_requests_and_watches_at_a_time() -> None:
    rates, tenant = Rates(), tenant_with(concurrentRequests=2, watches=1)
    first, _ = [rates.enter(*tenant, 1.0, watch=False) for _ in range(2)]
    watching = rates.enter(*tenant, 1.0, watch=True)
    for watch in (False, True):
        with pytest.raises(TooManyRequests):
            rates.enter(*tenant, 1.0, watch=watch)
    assert first is not None
    assert watching is first
    rates.leave(first, watch=False)
    rates.leave(watching, watch=True)
    assert rates.enter(*tenant, 1.0, watch=False) is first
    assert rates.enter(*tenant, 1.0, watch=True) is first


async def test_the_response_has_retry_after(api: Client) -> None:
    acme = await make(api.of_tenant("system"), "acme", quotas={"watches": 0, "requestsPerSecond": 1})
    answers = await asyncio.gather(*(acme.get(CONFIG_MAPS) for _ in range(20)))
    refused = next(answer for answer in answers if answer.code == 429)
    assert failure(refused, 429, "TooManyRequests")["message"] == "too many requests, please try again later"
    assert refused.header("retry-after") == "1"
