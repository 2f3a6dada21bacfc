"""A webhook whose CA bundle cannot be used fails its own tenant's writes, and nobody else's."""

from __future__ import annotations

import asyncio
import ssl

import httpx

from tests.folders import data_folder
from tests.running import RunningServer, running_server

TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"
HOOKS = "/clusters/attacker/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MAPS = "api/v1/namespaces/default/configmaps"
TENANT = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "spec": {}}
HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "refused"},
    "webhooks": [
        {
            "name": "refused.example.com",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "eA=="},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        }
    ],
}
# Its TLS records arrive in pieces, so the server looks for more than there is.
LARGE = {"metadata": {"generateName": "a"}, "data": {"x": "y" * 400_000}}


def client(server: RunningServer) -> httpx.AsyncClient:
    context = ssl.create_default_context(cafile=server.data_dir / "ca.crt")
    headers = {"authorization": f"Bearer {server.token}"}
    return httpx.AsyncClient(base_url=server.url, headers=headers, verify=context, timeout=120, trust_env=False)


async def test_a_refused_bundle_ends_no_connection_of_others() -> None:
    """Each attempt to use the bundle left an error in OpenSSL's queue of the thread, for the next read of another."""
    with data_folder() as folder, running_server(folder / "data", "--allow-egress-to", "127.0.0.0/8") as server:
        async with client(server) as attacker, client(server) as neighbour:
            for name in ("attacker", "neighbour"):
                (await attacker.post(TENANTS, json={**TENANT, "metadata": {"name": name}})).raise_for_status()
            (await attacker.post(HOOKS, json=HOOK)).raise_for_status()

            async def attack() -> None:
                while True:
                    answer = await attacker.post(f"/clusters/attacker/{MAPS}", json={"metadata": {"generateName": "a"}})
                    assert "unable to load root certificates" in answer.text

            attacks = [asyncio.create_task(attack()) for _ in range(3)]
            for _ in range(20):
                answer = await neighbour.post(f"/clusters/neighbour/{MAPS}?dryRun=All", json=LARGE)
                assert answer.status_code == 201, answer.text
            assert not any(task.done() for task in attacks)
            for task in attacks:
                task.cancel()
            await asyncio.gather(*attacks, return_exceptions=True)
