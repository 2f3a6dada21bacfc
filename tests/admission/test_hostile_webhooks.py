"""Webhooks that never answer, so that what waits for them piles up: it is bounded, by tenant."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from registry.api.admission import webhooks as calls
from registry.flowcontrol.interruption import WHEN_GONE
from registry.schema.names import label_key
from tests.admission.policies import ADMISSION, rule, widget
from tests.api.client import MERGE, PATIENCE_SECONDS, Answer, Client, NotAnswered
from tests.api.widgets import WIDGETS
from tests.webhooks.hostile import Certificates, Server, body, certificates, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

LARGE = {"free": {"note": "x" * 1_200_000}}


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls"))


class Gate:
    """Allows every request, once it is opened. `names` are the objects whose reviews wait, `most` their largest number."""

    def __init__(self, **more: Any) -> None:
        self._more = more
        self.opened = asyncio.Event()
        self.arrived = asyncio.Condition()
        self.names: list[str] = []
        self.most = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length: ")[2].partition(b"\r")[0])
            request = json.loads(await reader.readexactly(length))["request"]
            async with self.arrived:
                self.names.append(request["name"])
                self.most = max(self.most, len(self.names))
                self.arrived.notify_all()
            await self.opened.wait()
            self.names.remove(request["name"])
            response = {"uid": request["uid"], "allowed": True, **self._more}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
            writer.write(body(json.dumps(review).encode()))
            await writer.drain()

    async def has(self, name: str = "") -> None:
        """Waits until the review of this object is here, or any."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: name in self.names if name else bool(self.names))


def configuration(server: Server, *names: str) -> dict[str, Any]:
    webhooks = [
        {
            "name": f"{name}.example.com",
            "rules": [rule("UPDATE", "DELETE")],
            "sideEffects": "None",
            "timeoutSeconds": 30,
            "clientConfig": {"url": server.endpoint.url, "caBundle": server.endpoint.ca_bundle},
            "admissionReviewVersions": ["v1"],
        }
        for name in names
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": webhooks,
    }


CHANGES: dict[str, Callable[[Client, str], Coroutine[Any, Any, Answer]]] = {
    "delete": lambda api, name: api.delete(f"{WIDGETS}/{name}?dryRun=All"),
    "patch": lambda api, name: api.patch(f"{WIDGETS}/{name}?dryRun=All", {"spec": {"size": 2}}, MERGE),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_few_large_objects_wait_for_a_webhook_at_once(
    api: Client, trusted: Certificates, change: Callable[[Client, str], Coroutine[Any, Any, Answer]]
) -> None:
    """Decoded, an object of megabytes takes a hundred: 200 deletions that waited for a webhook took 4.6 GB."""
    names = [f"large{i}" for i in range(6)]
    for name in names:
        (await api.post(WIDGETS, widget(name, **LARGE))).ok(201)
    (await api.post(WIDGETS, widget("small"))).ok(201)
    gate = Gate()
    async with serving(trusted, gate) as server:
        (await api.post(f"{ADMISSION}/validatingwebhookconfigurations", configuration(server, "a"))).ok(201)
        changes = [asyncio.create_task(change(api, name)) for name in names]
        await gate.has()
        changes.append(asyncio.create_task(change(api, "small")))
        await gate.has("small")
        gate.opened.set()
        for done in await asyncio.gather(*changes):
            done.ok()
        assert gate.most <= 3


async def test_few_reviews_of_a_large_object_are_made_at_once(api: Client, trusted: Certificates) -> None:
    """100 webhooks had 100 reviews of megabytes at once, which were encoded while nothing else ran."""
    (await api.post(WIDGETS, widget("large", **LARGE))).ok(201)
    (await api.post(WIDGETS, widget("small"))).ok(201)
    gate = Gate()
    async with serving(trusted, gate) as server:
        many = configuration(server, *(f"w{i}" for i in range(12)))
        (await api.post(f"{ADMISSION}/validatingwebhookconfigurations", many)).ok(201)
        changes = [asyncio.create_task(CHANGES["delete"](api, "large"))]
        await gate.has()
        changes.append(asyncio.create_task(CHANGES["delete"](api, "small")))
        await gate.has("small")
        assert gate.names.count("large") <= 2
        gate.opened.set()
        for done in await asyncio.gather(*changes):
            done.ok()


async def test_few_annotations_and_warnings_of_an_answer_are_looked_at(
    api: Client, trusted: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of hundreds of thousands was, on the event loop."""
    (await api.post(WIDGETS, widget("small"))).ok(201)
    looked_at: list[str] = []

    def recorded(name: str) -> list[str]:
        looked_at.append(name)
        return label_key(name)

    monkeypatch.setattr(calls, "label_key", recorded)
    gate = Gate(auditAnnotations={f"k{i}": "v" for i in range(5000)}, warnings=["x" * 100_000, "y"])
    gate.opened.set()
    async with serving(trusted, gate) as server:
        (await api.post(f"{ADMISSION}/validatingwebhookconfigurations", configuration(server, "a"))).ok(201)
        done = await CHANGES["delete"](api, "small")
        done.ok()
    assert len(looked_at) == 1000
    assert done.headers["warning"] == [f'299 - "{"x" * 256}"', '299 - "y"']


async def test_a_client_that_disconnects_waits_for_no_webhook(api: Client, trusted: Certificates) -> None:
    """200 deletions whose clients had left went on when the webhook they waited for was removed, all at once."""
    (await api.post(WIDGETS, widget("large", **LARGE))).ok(201)
    gate = Gate()
    disconnect: list[Callable[[], None] | None] = []
    async with serving(trusted, gate) as server:
        (await api.post(f"{ADMISSION}/validatingwebhookconfigurations", configuration(server, "a"))).ok(201)
        path = f"{WIDGETS}/large"
        left = asyncio.create_task(api.request("DELETE", path, scope={WHEN_GONE: disconnect.append}))
        await gate.has("large")
        (call,) = disconnect
        assert call is not None
        call()
        with pytest.raises(NotAnswered):
            await asyncio.wait_for(left, PATIENCE_SECONDS)
        gate.opened.set()
        (await api.get(path)).ok()
