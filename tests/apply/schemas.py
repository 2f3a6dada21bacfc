"""Definitions of our own for the tests of this folder: one kind with every sort of field."""

from __future__ import annotations

from typing import Any

from registry.apply.managed_fields import FieldManager
from registry.apply.types import MergeType, compile_type
from registry.schema.model import Structural, from_json

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}

SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "color": TEXT,
        "size": NUMBER,
        "flag": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "frame": {"type": "object", "properties": {"width": NUMBER, "height": NUMBER}},
        "stamp": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"ink": TEXT, "pad": TEXT}},
        "limits": {"type": "object", "additionalProperties": TEXT},
        "boxes": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT, "b": TEXT}}},
        "steps": {"type": "array", "items": TEXT},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "rooms": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "properties": {"name": TEXT, "area": NUMBER}},
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["proto", "port"],
            "items": {
                "type": "object",
                "properties": {"port": NUMBER, "proto": {"type": "string", "default": "tcp"}, "note": TEXT},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": TEXT}},
        "open": {"type": "object"},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object", "properties": {"a": TEXT}}},
        },
    },
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"spec": SPEC, "status": {"type": "object", "properties": {"phase": TEXT, "ready": NUMBER}}},
}

V1, V2 = "example.com/v1", "example.com/v2"


def structural(schema: dict[str, Any] = SCHEMA) -> Structural:
    return from_json(schema)


def type_of(schema: dict[str, Any] = SCHEMA) -> MergeType:
    return compile_type(from_json(schema))


def spec_type() -> MergeType:
    return type_of().fields["spec"][1]


def fields(**more: Any) -> FieldManager:
    schema = structural()
    return FieldManager("Widget", {V1: lambda: schema}, **more)


def widget(spec: Any = None, *, version: str = V1, status: Any = None, **metadata: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"apiVersion": version, "kind": "Widget", "metadata": {"name": "a", **metadata}}
    if spec is not None:
        result["spec"] = spec
    if status is not None:
        result["status"] = status
    return result
