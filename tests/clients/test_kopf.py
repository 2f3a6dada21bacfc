"""A kopf operator (examples/kopf-operator) as a process: reconciling, status, finalizers, a restart of the server."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.clients.kinds import connected, until
from tests.folders import data_folder
from tests.replication import free_port
from tests.running import RunningServer, running_server, start_server

# The operator imports it, in a process of its own; here it would take each test process half a second.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("kopf") is None, reason="kopf is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"
FINALIZER = "jobs.example.com/kopf-operator"


@pytest.fixture
def own_server() -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder / "data", "--port", str(free_port())) as running:
        yield running


@contextlib.contextmanager
def operator(server: RunningServer) -> Iterator[subprocess.Popen[bytes]]:
    log = server.data_dir / "operator.log"
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--standalone",
        "--all-namespaces",
        str(EXAMPLES / "kopf-operator" / "operator.py"),
    ]
    with open(log, "ab") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class CronTabs:
    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        namespace = f"ns-{secrets.token_hex(4)}"
        http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
        self.path = f"/apis/jobs.example.com/v1/namespaces/{namespace}/crontabs"

    def create(self, name: str, **spec: Any) -> None:
        body = {
            "apiVersion": "jobs.example.com/v1",
            "kind": "CronTab",
            "metadata": {"name": name},
            "spec": {"schedule": "0 3 * * *", "image": "backup:2", **spec},
        }
        self.http.post(self.path, json=body).raise_for_status()

    def patch(self, name: str, spec: dict[str, Any]) -> None:
        self.http.patch(
            f"{self.path}/{name}", json={"spec": spec}, headers={"Content-Type": "application/merge-patch+json"}
        ).raise_for_status()

    def delete(self, name: str) -> None:
        self.http.delete(f"{self.path}/{name}").raise_for_status()

    def get(self, name: str) -> dict[str, Any] | None:
        answer = self.http.get(f"{self.path}/{name}")
        return None if answer.status_code == 404 else dict(answer.raise_for_status().json())

    def reconciled(self, name: str, replicas: int) -> bool:
        found = self.get(name)
        if found is None or "status" not in found:
            return False
        status, generation = found["status"], found["metadata"]["generation"]
        return bool(status.get("replicas") == replicas and status.get("observedGeneration") == generation)


def test_an_operator_through_a_restart(own_server: RunningServer) -> None:
    definition = yaml.safe_load((EXAMPLES / "crontab" / "definition.yaml").read_text())
    with connected(own_server) as http:
        http.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=definition).raise_for_status()
        until(lambda: http.get("/apis/jobs.example.com/v1").status_code == 200)
        crontabs = CronTabs(http)
        crontabs.create("before", replicas=1)
    with operator(own_server) as process:
        with connected(own_server) as http:
            crontabs.http = http
            until(lambda: crontabs.reconciled("before", 1))
            assert FINALIZER in (crontabs.get("before") or {})["metadata"]["finalizers"]
            crontabs.create("a", replicas=2)
            until(lambda: crontabs.reconciled("a", 2))
            crontabs.patch("a", {"replicas": 5})
            until(lambda: crontabs.reconciled("a", 5))
            crontabs.delete("before")
            until(lambda: crontabs.get("before") is None)

        own_server.stop()
        again = start_server(own_server.data_dir, "--port", str(own_server.port))
        try:
            with connected(again) as http:
                crontabs.http = http
                crontabs.patch("a", {"replicas": 7})
                crontabs.create("after", replicas=3)
                until(lambda: crontabs.reconciled("a", 7))
                until(lambda: crontabs.reconciled("after", 3))
                crontabs.delete("a")
                until(lambda: crontabs.get("a") is None)
            assert process.poll() is None, "the operator has never ended"
        finally:
            again.stop()
    log = (own_server.data_dir / "operator.log").read_text()
    assert "before is cleaned up" in log
    assert "a is cleaned up" in log
