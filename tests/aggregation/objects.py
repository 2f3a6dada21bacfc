"""APIServices as the tests of this folder write them."""

from __future__ import annotations

from typing import Any

PATH = "/apis/apiregistration.k8s.io/v1/apiservices"


def api_service(name: str = "v1.metrics.example.com", **spec: Any) -> dict[str, Any]:
    version, _, group = name.partition(".")
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15, **spec},
    }


def service(**changed: Any) -> dict[str, Any]:
    return {"service": {"namespace": "kube-system", "name": "metrics", "port": 443} | changed}
