"""Several workers of one server: what one has written binds the other, by the rules of docs/security.md.

Each connection leads to one worker for its whole life. So a test has one to each, and says which of them it means.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import httpx
import psutil
import pytest

from registry.authentication.tokens.bearer import BearerTokens
from registry.store.store import Store
from registry.store.types import TenantName
from tests.admission.policies import BINDINGS, POLICIES, named, rule
from tests.databases import temporary_database
from tests.faults.clients import PATIENCE_SECONDS, eventually
from tests.folders import data_folder
from tests.processes import children
from tests.running import RunningServer, running_server

pytestmark = pytest.mark.slow

TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
# Only authenticated users may ask who they are.
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Worker:
    """The administrator, on the only connection that it has, or another identity by its token."""

    def __init__(self, server: RunningServer) -> None:
        self._token = server.token
        self._http = httpx.AsyncClient(
            base_url=server.url,
            timeout=PATIENCE_SECONDS,
            trust_env=False,
            limits=httpx.Limits(max_connections=1, keepalive_expiry=None),
        )
        self._port = 0

    async def request(
        self, method: str, path: str, body: Any = None, token: str = "", content_type: str = "application/json"
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token or self._token}", "Content-Type": content_type}
        content = None if body is None else json.dumps(body)
        async with self._http.stream(method, path, content=content, headers=headers) as answer:
            port = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
            await answer.aread()
        assert self._port in (0, port), "the connection has ended: another one may lead to another worker"
        self._port = port
        return answer

    async def make(self, path: str, body: Any) -> Any:
        answer = await self.request("POST", path, body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def patch(self, path: str, body: Any) -> None:
        answer = await self.request("PATCH", path, body, content_type="application/merge-patch+json")
        assert answer.status_code == 200, answer.text

    async def delete(self, path: str) -> None:
        answer = await self.request("DELETE", path)
        assert answer.status_code in (200, 202), answer.text

    async def status_of(self, method: str, path: str, body: Any = None, token: str = "") -> int:
        """The code of the answer."""
        return (await self.request(method, path, body, token)).status_code

    async def pid(self, server: RunningServer) -> int:
        """Of the process at the other end."""
        await self.request("GET", "/livez")
        [found] = [
            pid
            for pid in children(server.process.pid, "worker")
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.raddr and connection.raddr.port == self._port
        ]
        return found

    async def aclose(self) -> None:
        await self._http.aclose()


@pytest.fixture(scope="module")
def database(postgres_server: str, template_database: str) -> Iterator[str]:
    with temporary_database(postgres_server, template_database) as url:
        yield url


@pytest.fixture(scope="module")
def server(database: str) -> Iterator[RunningServer]:
    """One for all tests of the module, each of which has a tenant of its own."""
    with (
        data_folder() as folder,
        running_server(folder / "data", "--database-url", database, "--plain-http", "--workers", "2") as server,
    ):
        yield server


@pytest.fixture
async def workers(server: RunningServer) -> AsyncIterator[Sequence[Worker]]:
    """Both, in no order: fresh connections, until each has one."""
    assert len(children(server.process.pid, "worker")) == 2
    async with contextlib.AsyncExitStack() as stack:
        found: dict[int, Worker] = {}

        async def both() -> bool:
            worker = Worker(server)
            stack.push_async_callback(worker.aclose)
            found.setdefault(await worker.pid(server), worker)
            return len(found) == 2

        await eventually(both)
        yield list(found.values())


async def tenant(worker: Worker, name: str) -> str:
    """A new tenant; what stands before its paths."""
    await worker.make(TENANTS, {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}})
    return f"/clusters/{name}"


@contextlib.asynccontextmanager
async def tokens_of(database: str) -> AsyncIterator[tuple[BearerTokens, Store]]:
    """What `registry token` works with: a process of its own, as far as what it knows goes."""
    store = await Store.open(database, housekeeping=False)
    try:
        yield BearerTokens(store), store
    finally:
        await store.close()


def config_map(name: str) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def comes(worker: Worker, code: int, method: str, path: str, body: Any = None, token: str = "") -> None:
    """Waits for an answer of this code, by this worker."""

    async def so() -> bool:
        return await worker.status_of(method, path, body, token) == code

    await eventually(so)


async def test_a_revoked_token(workers: Sequence[Worker], database: str) -> None:
    """Both have taken it before, and so remember it."""
    one, two = workers
    at = await tenant(one, "tokens")
    await one.make(f"{at}{ACCOUNTS}", {"metadata": {"name": "robot"}})
    asked = await one.make(
        f"{at}{ACCOUNTS}/robot/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    )
    robot = asked["status"]["token"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    async with tokens_of(database) as (bearer, store):
        home = await store.tenant(TenantName("tokens"))
        ann, stored = await bearer.create(home, "ann", [], "", None)
        for worker in workers:
            for token in (ann, robot):
                assert await worker.status_of("POST", at + WHO, review, token) == 201
        assert await bearer.revoke(home, stored.id) is not None
    await one.delete(f"{at}{ACCOUNTS}/robot")
    # At once where the account was deleted.
    assert await one.status_of("POST", at + WHO, review, robot) == 401
    for worker in workers:
        await comes(worker, 401, "POST", at + WHO, review, ann)
    await comes(two, 401, "POST", at + WHO, review, robot)


async def test_granted_and_revoked_rights(workers: Sequence[Worker], database: str) -> None:
    one, two = workers
    at = await tenant(one, "grants")
    async with tokens_of(database) as (bearer, store):
        ann, _ = await bearer.create(await store.tenant(TenantName("grants")), "ann", [], "", None)
    for worker in workers:
        assert await worker.status_of("GET", at + CONFIG_MAPS, token=ann) == 403
    role = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}
    bound = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    await one.make(f"{at}{RBAC}/roles", role)
    await one.make(f"{at}{RBAC}/rolebindings", bound)
    # At once where it was written, soon at the other; and the other way round.
    assert await one.status_of("GET", at + CONFIG_MAPS, token=ann) == 200
    await comes(two, 200, "GET", at + CONFIG_MAPS, token=ann)
    await two.delete(f"{at}{RBAC}/rolebindings/r")
    assert await two.status_of("GET", at + CONFIG_MAPS, token=ann) == 403
    await comes(one, 403, "GET", at + CONFIG_MAPS, token=ann)


async def test_a_policy_applies_in_both_workers_once_it_is_answered(workers: Sequence[Worker]) -> None:
    one, two = workers
    at = await tenant(one, "policies")
    for number, (writer, other) in enumerate(((one, two), (two, one))):
        for worker in workers:
            await worker.make(at + CONFIG_MAPS, config_map(f"before-{number}-{id(worker)}"))
        name = f"p{number}"
        constraints = {"resourceRules": [rule("CREATE", resources="configmaps", group="")]}
        await writer.make(
            at + POLICIES,
            named(
                "ValidatingAdmissionPolicy", name, matchConstraints=constraints, validations=[{"expression": "false"}]
            ),
        )
        await writer.make(
            at + BINDINGS, named("ValidatingAdmissionPolicyBinding", name, policyName=name, validationActions=["Deny"])
        )
        assert await other.status_of("POST", at + CONFIG_MAPS, config_map("a")) == 422
        assert await writer.status_of("POST", at + CONFIG_MAPS, config_map("a")) == 422
        await writer.delete(f"{at}{BINDINGS}/{name}")


async def test_a_tenant_that_is_suspended_and_deleted(workers: Sequence[Worker]) -> None:
    """Both have served it before, and so remember it."""
    one, two = workers
    at = await tenant(one, "halted")
    for worker in workers:
        await worker.make(at + CONFIG_MAPS, config_map(f"by-{id(worker)}"))
    for writer, other in ((one, two), (two, one)):
        await writer.patch(f"{TENANTS}/halted", {"spec": {"suspended": True}})
        for worker in (other, writer):
            assert await worker.status_of("POST", at + CONFIG_MAPS, config_map("a")) == 403
            assert await worker.status_of("DELETE", f"{at}{CONFIG_MAPS}/by-{id(worker)}") == 403
            assert await worker.status_of("GET", at + CONFIG_MAPS) == 200
        await writer.patch(f"{TENANTS}/halted", {"spec": {"suspended": False}})
        await other.make(at + CONFIG_MAPS, config_map(f"again-{id(writer)}"))
    await one.delete(f"{TENANTS}/halted")
    for worker in (two, one):
        assert await worker.status_of("GET", at + CONFIG_MAPS) == 404
        assert await worker.status_of("POST", at + CONFIG_MAPS, config_map("b")) == 404
    # Of what is remembered by its name, nothing is taken for another tenant of that name.
    await comes(one, 404, "GET", f"{TENANTS}/halted")
    await tenant(two, "halted")
    for worker in (one, two):
        assert await worker.status_of("GET", f"{at}{CONFIG_MAPS}/by-{id(worker)}") == 404
        await worker.make(at + CONFIG_MAPS, config_map(f"by-{id(worker)}"))
