"""Data for the console's tests and screenshots: two tenants with definitions, objects, owners, events and history."""

from __future__ import annotations

import json
import ssl
from typing import Any

import httpx

from tests.running import RunningServer

GROUP = "demo.example.com"
API = f"/apis/{GROUP}/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}
SHOP = "/clusters/shop"


def client(server: RunningServer, token: str | None = None) -> httpx.Client:
    trust = ssl.create_default_context(cafile=str(server.authority))
    return httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {token or server.token}"}, verify=trust, timeout=60
    )


def ok(answer: httpx.Response) -> Any:
    assert answer.status_code < 300, f"{answer.request.method} {answer.request.url}: {answer.text[:500]}"
    return answer.json()


def definition(plural: str, kind: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": schema}},
        **more,
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "categories": ["demo"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


CONDITIONS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "items": {
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string"},
            "reason": {"type": "string"},
            "lastTransitionTime": {"type": "string", "format": "date-time"},
        },
    },
}
BACKUP = {
    "spec": {
        "type": "object",
        "required": ["schedule"],
        "properties": {
            "schedule": {"type": "string", "minLength": 9, "description": "When to back up, as cron has it."},
            "keep": {"type": "integer", "minimum": 1, "default": 7, "description": "How many backups are kept."},
            "paused": {"type": "boolean", "default": False},
            "target": {"type": "string", "enum": ["disk", "cloud"], "default": "disk"},
            "zone": {"type": "string", "description": "Deprecated: use target."},
        },
        "x-kubernetes-validations": [
            {"rule": "!self.paused || self.keep > 1", "message": "a paused backup must keep more than one"}
        ],
    },
    "status": {"type": "object", "properties": {"phase": {"type": "string"}, "conditions": CONDITIONS}},
}
COLUMNS = [
    {"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule", "description": "When to back up."},
    {"name": "Keep", "type": "integer", "jsonPath": ".spec.keep"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Target", "type": "string", "jsonPath": ".spec.target", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
RUN = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
TEAMS = ("storage", "billing", "search", "mail")
PHASES = ("Ready", "Ready", "Running", "Failed")


def seed(server: RunningServer) -> None:
    """The tenant `shop` with backups and their runs, and a dozen other tenants."""
    with client(server) as http:
        for name in ("shop", "labs", "press", *(f"team-{number}" for number in range(1, 10))):
            quotas = {"objects": 400 if name == "shop" else 5000, "bytes": 5_000_000}
            spec = {"displayName": name.title(), "quotas": quotas, "suspended": name == "press"}
            tenant = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}
            ok(http.post("/clusters/system/apis/tenancy.registry/v1/tenants", json=tenant))
        define(http, definition("backups", "Backup", BACKUP, additionalPrinterColumns=COLUMNS))
        define(http, definition("runs", "Run", RUN))
        ok(http.post(f"{SHOP}/api/v1/namespaces", json={"metadata": {"name": "prod"}}))
        for number in range(40):
            backup(http, number)
        quota = {"metadata": {"name": "limits"}, "spec": {"hard": {"configmaps": "10", f"count/backups.{GROUP}": "50"}}}
        ok(http.post(f"{SHOP}/api/v1/namespaces/default/resourcequotas", json=quota))
        past(http)


def define(http: httpx.Client, wanted: dict[str, Any], tenant: str = SHOP) -> None:
    """Made, and served when this returns."""
    ok(http.post(f"{tenant}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=wanted))
    spec = wanted["spec"]
    name = wanted["metadata"]["name"]
    query = f"fieldSelector=metadata.name={name}&watch=1&timeoutSeconds=60"
    with http.stream("GET", f"{tenant}/apis/apiextensions.k8s.io/v1/customresourcedefinitions?{query}") as events:
        for line in events.iter_lines():
            if _established(line):
                break
    ok(http.get(f"{tenant}/apis/{spec['group']}/v1/{spec['names']['plural']}?limit=1"))


def _established(line: str) -> bool:
    conditions = json.loads(line)["object"].get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def backup(http: httpx.Client, number: int) -> None:
    team, phase = TEAMS[number % 4], PHASES[number % 4]
    namespace = "prod" if number % 3 == 0 else "default"
    path = f"{SHOP}{API}/namespaces/{namespace}/backups"
    name = "nightly" if number == 0 else f"{team}-{number}"
    spec = {"schedule": f"{number} 3 * * *", "keep": 3 + number % 9}
    made = ok(http.post(path, json=manifest("Backup", name, spec, labels={"team": team})))
    ready = {"type": "Ready", "status": "True" if phase == "Ready" else "False", "reason": phase}
    condition = {**ready, "lastTransitionTime": made["metadata"]["creationTimestamp"]}
    ok(http.patch(f"{path}/{name}/status", json={"status": {"phase": phase, "conditions": [condition]}}, headers=MERGE))
    if number < 4:
        owner = {"apiVersion": f"{GROUP}/v1", "kind": "Backup", "name": name, "uid": made["metadata"]["uid"]}
        for turn in range(3):
            run = manifest("Run", f"{name}-{turn}", {"size": 100 + turn}, ownerReferences=[owner])
            ok(http.post(f"{SHOP}{API}/namespaces/{namespace}/runs", json=run))


def past(http: httpx.Client) -> None:
    """`prod/nightly` has been changed, restarted, and written about; one backup was deleted."""
    path = f"{SHOP}{API}/namespaces/prod/backups/nightly"
    ok(http.patch(f"{path}?fieldManager=kubectl-edit", json={"spec": {"keep": 14, "target": "cloud"}}, headers=MERGE))
    for status in ("False", "True"):
        condition = {
            "type": "Ready",
            "status": status,
            "reason": "Checked",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        body = {"status": {"conditions": [condition], "phase": "Ready" if status == "True" else "Running"}}
        found = ok(http.patch(f"{path}/status?fieldManager=operator", json=body, headers=MERGE))
    about = {key: found["metadata"][key] for key in ("name", "namespace", "uid")}
    about |= {"apiVersion": f"{GROUP}/v1", "kind": "Backup"}
    for reason, kind in (("Started", "Normal"), ("SlowTarget", "Warning"), ("Finished", "Normal")):
        event = {
            "metadata": {"generateName": "nightly."},
            "involvedObject": about,
            "reason": reason,
            "type": kind,
            "message": f"The backup was {reason.lower()}: 412 MiB",
            "count": 1,
            "source": {"component": "backup-operator"},
            "firstTimestamp": found["metadata"]["creationTimestamp"],
            "lastTimestamp": found["metadata"]["creationTimestamp"],
        }
        ok(http.post(f"{SHOP}/api/v1/namespaces/prod/events", json=event))
    ok(http.delete(f"{SHOP}{API}/namespaces/default/backups/billing-5"))


def manifest(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}
