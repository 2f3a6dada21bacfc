"""The definition of examples/conversion-rules, and its objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DEFINITION = Path(__file__).parents[2] / "examples/conversion-rules/definition.yaml"


RULES = "conversion.registry/rules"


GROUP = "rules.example.com"


V1 = f"/apis/{GROUP}/v1/namespaces/default/gateways"


BETA = f"/apis/{GROUP}/v1beta1/namespaces/default/gateways"


def definition() -> dict[str, Any]:
    made: dict[str, Any] = yaml.safe_load(DEFINITION.read_text())
    return made


def gateway(name: str, version: str = "v1beta1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Gateway", "metadata": {"name": name}, "spec": spec}


NAME = f"gateways.{GROUP}"


OLD_FORM = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"


def version_of(crd: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(v for v in crd["spec"]["versions"] if v["name"] == name)
    return found
