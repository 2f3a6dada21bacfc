"""Recorded answers of kube-apiserver 1.36.2 to definitions.

Each case of a table is one definition. It is validated here without a server, and must get the same errors, in the same
order and with the same texts, the same warnings, and the same stored form.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from registry.definitions.decode import StructDecodeError, canonical, decode_definition
from registry.definitions.defaulting import default_definition
from registry.definitions.strategy import prepare_for_create
from registry.definitions.validation import validate_create
from registry.definitions.warnings import warnings
from tests import fast_yaml
from tests.conformance.harness import KNOWN_FAILURES
from tests.conformance.results import read as read_cases

Json = dict[str, Any]

pytestmark = pytest.mark.usefixtures("as_1_36")

KNOWN = read_cases(KNOWN_FAILURES)
RECORDINGS = Path(__file__).parents[1] / "conformance" / "scenarios" / "crd-api"

REFUSED = 'CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: '


def tables() -> list[Path]:
    # A look at the head of a file is cheaper than reading all of them as YAML.
    return [path for path in sorted(RECORDINGS.glob("*.yaml")) if "\nform: crd-table\n" in path.read_text()[:400]]


def read(path: Path) -> Json:
    text = path.read_text().replace("${group}", "g1.example.com").replace("${tail}", "t1")
    found: Json = fast_yaml.load(text)
    return found


def body_of_case(table: Json, case: Json) -> Json:
    """The definition that a case stands for."""
    spec: Json = json.loads(json.dumps(case.get("crd") or table.get("crd") or {}))
    spec.setdefault("group", "g1.example.com")
    spec.setdefault("scope", "Namespaced")
    spec.setdefault("names", {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"})
    schema = case["schema"] if "schema" in case else table.get("schema")
    spec.setdefault(
        "versions", [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    )
    name = f"{spec['names']['plural']}.{spec['group']}"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name} | (case.get("metadata") or {}),
        "spec": spec,
    }


def answer(body: Json, query: str) -> Json:
    try:
        decoded = decode_definition(body)
    except StructDecodeError as error:
        return {"status": 400, "message": REFUSED + str(error), "warnings": []}
    unknown = [f'unknown field "{path}"' for path in decoded.unknown]
    if "Strict" in query and unknown:
        return {"status": 400, "message": f"{REFUSED}strict decoding error: {', '.join(unknown)}", "warnings": []}
    definition = decoded.value
    default_definition(definition)
    definition = prepare_for_create(definition)
    errors = validate_create(definition)
    if errors:
        return {
            "status": 422,
            "warnings": unknown,
            "causes": [{"reason": str(e.type.value), "message": e.body(), "field": e.field} for e in errors],
        }
    stored = canonical(definition)
    return {
        "status": 201,
        "warnings": unknown + list(dict.fromkeys(warnings(definition))),
        "spec": stored["spec"],
        "status of it": stored["status"],
    }


def recorded(expected: Json) -> Json:
    body = expected["body"]
    found = {"status": expected["status"], "warnings": expected.get("warnings") or []}
    if expected["status"] == 201:
        return found | {"spec": body["spec"], "status of it": body["status"]}
    if expected["status"] == 422:
        return found | {"causes": body["details"]["causes"]}
    return found | {"message": body["message"]}


@pytest.mark.slow
@pytest.mark.parametrize("path", tables(), ids=lambda path: path.stem)
def test_table(path: Path) -> None:
    table = read(path)
    wrong = [
        case["name"]
        for case in table["cases"]
        if f"crd-api/{path.name}::{case['name']} [verbatim]" not in KNOWN
        and not case["expect"]["body"].get("message", "").startswith("CreateOptions")
        and answer(body_of_case(table, case), case.get("query", "")) != recorded(case["expect"])
    ]
    assert wrong == []


def test_there_are_recordings() -> None:
    assert len(tables()) > 20
    assert sys.getrecursionlimit() >= 1000
