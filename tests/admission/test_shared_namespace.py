"""Requests that policies and webhooks are evaluated for share the namespace that these see."""

from __future__ import annotations

from registry.api.admission.inputs import AdmissionInputs
from registry.api.request import ResourceRequest
from registry.api.verbs.update import copy_of
from registry.store.types import ObjectKey
from tests.controllers.processes import process, widgets


async def test_the_namespace_of_many_requests_is_kept_once(api_database: str) -> None:
    """Each of a thousand that wait for a webhook kept its own, which may have megabytes of finalizers."""
    async with process(api_database) as client:
        served, catalog = await widgets(client), await client.catalog()
        requests = [
            ResourceRequest(client.backend, client.context(), catalog, served, "default", "", "", {}) for _ in "ab"
        ]
        first, second = [AdmissionInputs(request) for request in requests]
        namespace = await first._load_namespace("default")
        assert await second._load_namespace("default") is namespace
        assert "managedFields" not in namespace["metadata"]

        def labelled(old: dict[str, object]) -> dict[str, object]:
            new = copy_of(old)
            new["metadata"]["labels"] = {"a": "b"}
            return new

        await client.change("", "namespaces", ObjectKey("default"), labelled)
        changed = await AdmissionInputs(requests[0])._load_namespace("default")
        assert changed["metadata"]["labels"] == {"a": "b", "kubernetes.io/metadata.name": "default"}
