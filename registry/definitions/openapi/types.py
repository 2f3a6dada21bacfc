"""The shared types of OpenAPI documents: metadata, options, Status, Patch, Scale. See types.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from registry.schema.openapi import META, V2_PREFIX, V3_PREFIX

Json = dict[str, Any]

AUTOSCALING = "io.k8s.api.autoscaling.v1"

# Which types a document needs that has custom resources in it, and which one that has a scale subresource.
BASE = (
    "DeleteOptions",
    "FieldsV1",
    "ListMeta",
    "ManagedFieldsEntry",
    "ObjectMeta",
    "OwnerReference",
    "Patch",
    "Preconditions",
    "Status",
    "StatusCause",
    "StatusDetails",
    "Time",
)
SCALE = ("Scale", "ScaleSpec", "ScaleStatus")


def type_name(short: str) -> str:
    """`ObjectMeta` is `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`."""
    return f"{AUTOSCALING if short in SCALE else META}.{short}"


@cache
def types_v3() -> Mapping[str, Json]:
    """All types for `components.schemas`, by short name. Not to be changed."""
    return {name: _with_refs(definition, v3=True) for name, definition in _read().items()}


@cache
def types_v2() -> Mapping[str, Json]:
    """All types for `definitions`, by short name. Not to be changed."""
    return {name: _with_refs(definition, v3=False) for name, definition in _read().items()}


def _read() -> dict[str, Json]:
    text = resources.files(__package__).joinpath("types.yaml").read_text(encoding="utf-8")
    found: dict[str, Json] = yaml.safe_load(text)
    return found


def _with_refs(value: Any, *, v3: bool) -> Any:
    if isinstance(value, list):
        return [_with_refs(v, v3=v3) for v in value]
    if not isinstance(value, dict):
        return value
    out = {k: _with_refs(v, v3=v3) for k, v in value.items() if k != "ref" and (v3 or k != "default")}
    if isinstance(value.get("ref"), str):
        reference = {"$ref": (V3_PREFIX if v3 else V2_PREFIX) + type_name(value["ref"])}
        # In v3 nothing may stand beside a reference.
        out = {**out, "allOf": [reference]} if v3 and out else {**out, **reference}
    return out
