"""The kind that the clients work with, and a plain way to the server for what a test does beside its client."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from tests.running import RunningServer

PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Kind:
    """A Gadget in a group of its own; `path` is its collection in the namespace."""

    server: RunningServer
    group: str
    namespace: str
    version: str = "v1"
    plural: str = "gadgets"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def path(self) -> str:
        return f"/apis/{self.api_version}/namespaces/{self.namespace}/{self.plural}"

    def gadget(self, name: str, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": self.api_version,
            "kind": "Gadget",
            "metadata": {"name": name, "namespace": self.namespace, "labels": {"size": str(spec.get("size", 1))}},
            "spec": spec or {"size": 1},
        }


def connected(server: RunningServer) -> httpx.Client:
    """An administrator's client. It trusts the server's own CA and nobody else."""
    return httpx.Client(
        base_url=server.url,
        headers={"Authorization": f"Bearer {server.token}"},
        timeout=PATIENCE_SECONDS,
        verify=ssl.create_default_context(cafile=str(server.authority)),
    )


@contextlib.contextmanager
def defined(server: RunningServer, group: str, namespace: str) -> Iterator[Kind]:
    kind = Kind(server, group, namespace)
    with connected(server) as http:
        definition = _definition(kind)
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        http.post(definitions, json=definition).raise_for_status()
        http.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
        until(lambda: http.get(f"/apis/{kind.api_version}").status_code == 200)
    yield kind
    if server.process.poll() is not None:
        return
    with connected(server) as http:
        http.delete(f"{definitions}/{definition['metadata']['name']}")
        http.delete(f"/api/v1/namespaces/{namespace}")


def _definition(kind: Kind) -> dict[str, Any]:
    count = {"type": "integer", "format": "int32", "minimum": 0}
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 1000},
            "color": {"type": "string", "default": "grey"},
            "replicas": count,
            "text": {"type": "string"},
        },
    }
    status = {
        "type": "object",
        "properties": {
            "replicas": count,
            "phase": {"type": "string"},
            "conditions": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        },
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "selectableFields": [{"jsonPath": ".spec.color"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "versions": [version],
            "names": {
                "plural": kind.plural,
                "singular": "gadget",
                "kind": "Gadget",
                "listKind": "GadgetList",
                "shortNames": ["gd"],
            },
        },
    }


def until(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Looks again and again until something holds; fails where it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)
