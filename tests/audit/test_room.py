"""What waits to be written to the audit log: bounded in bytes, of which each tenant has a fair share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from registry.api.strategies.base import Context
from registry.audit.policy import AuditPolicy, load
from registry.audit.sinks import Sinks
from registry.audit.trail import Trail
from registry.authentication.user import User
from registry.authorization.attributes import Attributes
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName
from tests.api.client import eventually
from tests.audit.auditing import auditing
from tests.tenancy.tenants import make, token_of

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, nonResourceURLs: [/livez]}
- {level: RequestResponse}
"""
LIMIT = 400_000


class Slow:
    """Writes nothing before `free` is set."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.batches: list[list[bytes]] = []

    async def write(self, lines: Sequence[bytes]) -> None:
        await self.free.wait()
        self.batches.append(list(lines))

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for batch in self.batches for line in batch]


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
async def sinks(slow: Slow) -> AsyncIterator[Sinks]:
    sinks = Sinks([slow.write, slow.write], LIMIT)
    yield sinks
    slow.free.set()
    await sinks.aclose()


@pytest.fixture
def policy(tmp_path: Path) -> AuditPolicy:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return load(tmp_path / "policy.yaml")


CREATE = Attributes("create", "", "configmaps", namespace="default")


async def request(sinks: Sinks, policy: AuditPolicy, tenant: str, body: bytes, attributes: Attributes = CREATE) -> None:
    """A request of the tenant; nobody knows the user of one without a tenant."""
    scope = {"path": "/api", "query_string": b"", "headers": [(b"content-type", b"application/json")]}
    trail = Trail(policy, sinks, scope, "v1", attributes, "id")

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        pass

    trail.counts_for(tenant)
    if tenant:
        await trail.identify(User("ann", ()), attributes, tenant)
        await trail.receiving(receive)()
    answer = trail.sending(send)
    try:
        await answer({"type": "http.response.start", "status": 201 if tenant else 401, "headers": []})
        await answer({"type": "http.response.body", "body": b""})
    except BaseException:
        await trail.panic()
        raise
    await trail.end()


@pytest.mark.parametrize("hostile", ["a", ""], ids=["a tenant", "no credential"])
async def test_requests_wait_for_the_events_of_their_own_tenant(
    sinks: Sinks, slow: Slow, policy: AuditPolicy, hostile: str
) -> None:
    flood = [asyncio.create_task(request(sinks, policy, hostile, b'"%s"' % (b"x" * 5000))) for _ in range(1000)]
    await asyncio.sleep(0)
    await eventually(lambda: _is_stable(flood))
    async with asyncio.timeout(10):
        await request(sinks, policy, "b", b"{}")
        await request(sinks, policy, "", b"", Attributes("get", "/livez"))
    assert sum(task.done() for task in flood) < 800
    slow.free.set()
    await asyncio.gather(*flood)
    await eventually(lambda: _has(slow, 2002))


async def test_bodies_beyond_the_share_are_omitted(sinks: Sinks, slow: Slow, policy: AuditPolicy) -> None:
    body = b'"%s"' % (b"x" * 150_000)
    await request(sinks, policy, "a", body)
    await request(sinks, policy, "a", body)
    await request(sinks, policy, "b", b'"short"')
    slow.free.set()
    await eventually(lambda: _has(slow, 6))
    found = sorted(len(event.get("requestObject", "")) for event in slow.events())
    assert found == [0, 0, 5, 5, 150_000, 150_000]
    [omitted, _] = [event for event in slow.events() if "requestObject" not in event]
    assert "too much waits to be written" in omitted["annotations"]["audit.registry/omitted"]


async def test_room_is_given_back(sinks: Sinks, slow: Slow, policy: AuditPolicy) -> None:
    """Also by requests that are cancelled while they wait."""
    tasks = [asyncio.create_task(request(sinks, policy, "a", b'"%s"' % (b"x" * 5000))) for _ in range(200)]
    await asyncio.sleep(0)
    await eventually(lambda: _is_stable(tasks))
    for task in tasks:
        task.cancel()
    slow.free.set()
    await asyncio.gather(*tasks, return_exceptions=True)

    async def is_empty() -> bool:
        return sinks.room.try_take("a", LIMIT // 2)

    await eventually(is_empty)


async def test_batches_are_bounded(slow: Slow) -> None:
    sinks = Sinks([slow.write])
    for _ in range(20):
        sinks.put("a", b"x" * 1_000_000)
    for _ in range(1000):
        sinks.put("a", b"x")
    slow.free.set()
    await sinks.aclose()
    assert all(len(batch) <= 500 and sum(map(len, batch)) <= 5_200_000 for batch in slow.batches)
    assert sum(map(len, slow.batches)) == 1020


def test_annotations_are_bounded() -> None:
    """Webhooks answer with any number, of any length."""
    annotations: dict[str, str] = {}
    context = Context(
        Tenant(TenantId(1), TenantName("a"), DomainId(1), Guards(0, 0)), User("ann", ()), annotations=annotations
    )
    attempt = context.fork()
    for number in range(100):
        attempt.annotate(f"hook.example.com/{number}", "x" * 50_000)
    attempt.annotate("hook.example.com/0", "another")
    attempt.annotate("short", "fits")
    context.adopt(attempt)
    context.annotate("long", "x" * 250_000)
    assert sum(map(len, annotations.values())) < 270_000
    assert annotations["hook.example.com/0"] == "x" * 50_000
    assert annotations["short"] == "fits"
    assert annotations["audit.registry/annotations-omitted"] == "annotations beyond 262144 characters"


async def _is_stable(tasks: Sequence[asyncio.Task[None]]) -> bool:
    """Whether as many as can be are done."""
    before = sum(task.done() for task in tasks)
    await asyncio.sleep(0.05)  # nothing more is done meanwhile
    return sum(task.done() for task in tasks) == before > 0


async def _has(slow: Slow, count: int) -> bool:
    return len(slow.events()) == count


async def test_events_count_for_the_tenant_of_the_user(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who names another tenant does not use up its share."""
    owners: list[str] = []
    put = Sinks.put

    def count(self: Sinks, tenant: str, data: bytes) -> None:
        owners.append(tenant)
        put(self, tenant, data)

    async with auditing(api_database, tmp_path, POLICY) as api:
        for name in ("acme", "other"):
            await make(api.of_tenant("system"), name)
        token = await token_of(api, "acme", "system:masters")
        foreign = api.with_token(token)
        (await foreign.get("/clusters/acme/api/v1/configmaps")).ok()
        monkeypatch.setattr(Sinks, "put", count)
        assert (await foreign.get("/clusters/other/api/v1/configmaps")).code == 403
        assert (await api.with_token("no").get("/clusters/other/api/v1/configmaps")).code == 401
        (await api.get("/clusters/other/api/v1/configmaps")).ok()
        await eventually(lambda: _count(owners, 3))
    assert owners == ["acme", "", "other"]


async def _count(items: Sequence[Any], count: int) -> bool:
    return len(items) == count
