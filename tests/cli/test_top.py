"""`registry top` counts tenants' activity in all processes, whichever process answers."""

from __future__ import annotations

import contextlib
import json
import ssl

import httpx
import pytest

from tests.folders import data_folder
from tests.processes import registry, wait_until
from tests.running import running_server

pytestmark = pytest.mark.slow

WATCHES = 8
TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants/default/usage"


def test_watches_of_all_workers_are_summed() -> None:
    with data_folder() as folder, running_server(folder / "data", "--workers", "2") as server:
        verify = ssl.create_default_context(cafile=server.authority)
        headers = {"Authorization": f"Bearer {server.token}"}

        def client() -> httpx.Client:
            """Each has a connection of its own, which the kernel gives to one of the workers."""
            return httpx.Client(base_url=server.url, headers=headers, verify=verify, timeout=120)

        def watches() -> int:
            with client() as one:
                found: int = one.get(TENANTS).json()["activity"]["watches"]
                return found

        with contextlib.ExitStack() as stack:
            for _ in range(WATCHES):
                watching = stack.enter_context(client())
                answer = stack.enter_context(watching.stream("GET", "/api/v1/configmaps?watch=true&resourceVersion=0"))
                assert answer.status_code == 200
            wait_until(lambda: all(watches() == WATCHES for _ in range(10)), "every worker counts all watches")
            done = registry("top", "-o", "json", KUBECONFIG=str(server.kubeconfig))
            assert done.returncode == 0, done.stderr
            assert {one["name"]: one["watches"] for one in json.loads(done.stdout)}["default"] == WATCHES
        wait_until(lambda: all(watches() == 0 for _ in range(10)), "what has ended is counted nowhere")
