"""Data for benchmarks: a definition with some sixty fields, and objects of a given size."""

from __future__ import annotations

import json
from typing import Any

PLURAL = "things"
TEXT = {"type": "string", "maxLength": 500}
NUMBER = {"type": "integer", "minimum": 0}
NAME = {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}


def definition(group: str, plural: str = PLURAL, *, fields: int = 0) -> dict[str, Any]:
    """Returns a definition with the schema of `thing`, or with a flat schema of that many `fields`."""
    kind = plural.rstrip("s").capitalize()
    spec = _flat(fields) if fields else _spec()
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": _status()}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                    "additionalPrinterColumns": [
                        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
                        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    ],
                }
            ],
        },
    }


def _flat(fields: int) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = [TEXT, NUMBER, NAME, {"type": "boolean"}, {"type": "array", "items": TEXT}]
    properties = {
        f"field{n}": {**kinds[n % len(kinds)], "description": f"What field {n} is for, in a few words."}
        for n in range(fields)
    }
    return {"type": "object", "properties": properties}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _spec() -> dict[str, Any]:
    """Returns a schema shaped like a deployment's: 61 fields with defaults, patterns, enums, lists as maps and
    int-or-strings."""
    quantity = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    resources = {"type": "object", "additionalProperties": quantity}
    probe = _object(
        [],
        path=TEXT,
        port=quantity,
        periodSeconds=NUMBER | {"default": 10},
        timeoutSeconds=NUMBER,
        failureThreshold=NUMBER | {"default": 3},
        initialDelaySeconds=NUMBER,
    )
    port = _object(
        ["name", "port"],
        name=NAME,
        port=NUMBER | {"maximum": 65535},
        targetPort=quantity,
        protocol={"type": "string", "enum": ["TCP", "UDP", "SCTP"], "default": "TCP"},
    )
    variable = _object(["name"], name=TEXT, value=TEXT, valueFrom=_object([], secret=TEXT, key=TEXT))
    container = _object(
        ["name", "image"],
        name=NAME,
        image=TEXT,
        command={"type": "array", "items": TEXT},
        args={"type": "array", "items": TEXT},
        workingDir=TEXT,
        liveness=probe,
        readiness=probe,
        env={
            "type": "array",
            "items": variable,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        resources=_object([], requests=resources, limits=resources),
        pullPolicy={"type": "string", "enum": ["Always", "IfNotPresent", "Never"], "default": "IfNotPresent"},
    )
    toleration = _object([], key=TEXT, value=TEXT, effect=TEXT, operator={"type": "string", "default": "Equal"})
    return _object(
        ["containers"],
        replicas=NUMBER | {"maximum": 1_000_000, "default": 1},
        paused={"type": "boolean"},
        description=TEXT,
        note={"type": "string"},
        owner=_object([], team=NAME, mail={"type": "string", "format": "email"}),
        strategy=_object(
            [], type={"type": "string", "enum": ["Rolling", "Recreate"]}, maxSurge=quantity, maxUnavailable=quantity
        ),
        selector={"type": "object", "additionalProperties": TEXT},
        containers={
            "type": "array",
            "items": container,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        ports={"type": "array", "items": port},
        tolerations={"type": "array", "items": toleration},
        zones={"type": "array", "items": NAME, "x-kubernetes-list-type": "set"},
        notBefore={"type": "string", "format": "date-time"},
        minReadySeconds=NUMBER,
        revisionHistoryLimit=NUMBER,
    )


def _status() -> dict[str, Any]:
    condition = _object(
        ["type", "status"],
        type=TEXT,
        status=TEXT,
        reason=TEXT,
        message=TEXT,
        lastTransitionTime={"type": "string", "format": "date-time"},
    )
    return _object([], phase=TEXT, observedGeneration=NUMBER, conditions={"type": "array", "items": condition})


def thing(group: str, name: str, size: int) -> dict[str, Any]:
    """Returns an object of `size` bytes, of which some 1.3 kB are in fields."""
    containers = [
        {
            "name": f"app-{n}",
            "image": f"images.example.com/team/app-{n}:1.2.{n}",
            "command": ["/bin/app", "--serve"],
            "args": ["--port", "8080", "--log", "json"],
            "env": [{"name": f"VARIABLE_{k}", "value": f"value-{k}"} for k in range(4)],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": 1, "memory": "256Mi"}},
            "readiness": {"path": "/readyz", "port": 8080, "periodSeconds": 5, "failureThreshold": 3},
            "pullPolicy": "IfNotPresent",
        }
        for n in range(2)
    ]
    made: dict[str, Any] = {
        "apiVersion": f"{group}/v1",
        "kind": "Thing",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "backend"}},
        "spec": {
            "replicas": 3,
            "description": "A thing of the benchmark",
            "containers": containers,
            "owner": {"team": "platform", "mail": "platform@example.com"},
            "strategy": {"type": "Rolling", "maxSurge": "25%", "maxUnavailable": 1},
            "selector": {"app": "bench"},
            "zones": ["zone-a", "zone-b"],
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
        },
    }
    # As in real objects, the text does not compress to almost nothing.
    missing = max(0, size - len(json.dumps(made, separators=(",", ":"))) - len(',"note":""'))
    made["spec"]["note"] = "".join(f"{n * 2654435761 % (1 << 32):08x} " for n in range(missing // 9 + 1))[:missing]
    return made
