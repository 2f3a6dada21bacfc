from __future__ import annotations

from typing import Any

import pytest

from registry.definitions.compiled import compile_definition
from registry.definitions.naming import NamesInUse
from registry.definitions.naming import next_status as next_of_all
from registry.definitions.nonstructural import next_status
from registry.schema.openapi import published_v2, published_v3
from tests.definitions.crds import crd, established

NOW, LATER = "2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"
LOOSE: dict[str, Any] = {"properties": {"spec": {"type": "object"}}}
KEEPS = "spec.preserveUnknownFields: Invalid value: true: must be false"
AT = "spec.versions[0].schema.openAPIV3Schema"


def keeping(schema: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return established(crd(schema, preserveUnknownFields=True), **status)


def condition(crd: dict[str, Any]) -> dict[str, Any] | None:
    status = next_status(crd, NOW)
    assert status is not None
    return next((c for c in status["conditions"] if c["type"] == "NonStructuralSchema"), None)


@pytest.mark.parametrize(
    "schema, status, reason, message",
    [
        pytest.param({"type": "object"}, "True", "Violations", KEEPS, id="structural"),
        pytest.param(
            LOOSE,
            "True",
            "Violations",
            f"[{KEEPS}, {AT}.type: Required value: must not be empty at the root]",
            id="not structural",
        ),
        pytest.param(
            {"$schema": "x"},
            "Unknown",
            "StructuralError",
            "failed to check validation schema for version v1: OpenAPIV3Schema 'schema' is not supported",
            id="not to be validated",
        ),
    ],
)
def test_the_condition(schema: dict[str, Any], status: str, reason: str, message: str) -> None:
    assert condition(keeping(schema)) == {
        "type": "NonStructuralSchema",
        "status": status,
        "lastTransitionTime": NOW,
        "reason": reason,
        "message": message,
    }


def test_definitions_that_prune_have_no_condition() -> None:
    assert next_status(established(crd()), NOW) is None


def test_the_condition_is_written_once_and_removed_with_its_cause() -> None:
    reported = {**keeping(LOOSE)}
    reported["status"] = next_status(reported, NOW)
    assert next_status(reported, LATER) is None
    assert next_of_all(reported, NamesInUse(), LATER) is None
    mended = {**reported, "spec": {**reported["spec"], "preserveUnknownFields": False}}
    status = next_status(mended, LATER)
    assert status is not None
    assert [c["type"] for c in status["conditions"]] == ["NamesAccepted", "Established"]


def test_the_time_stays_while_the_status_does() -> None:
    reported = keeping(LOOSE)
    reported["status"] = next_status(reported, NOW)
    other = {**reported, "spec": keeping({"type": "object"})["spec"]}
    status = next_status(other, LATER)
    assert status is not None
    assert [(c["message"], c["lastTransitionTime"]) for c in status["conditions"][2:]] == [(KEEPS, NOW)]


def test_nothing_is_pruned_at_any_depth() -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
                },
            }
        },
    }
    obj: dict[str, Any] = {
        "metadata": {"name": "a"},
        "other": 1,
        "spec": {"x": {"y": 1}, "list": [{"a": "b", "c": [1]}]},
    }
    compiled = {
        keeps: compile_definition(established(crd(schema, preserveUnknownFields=keeps))).versions["v1"].schema()
        for keeps in (True, False)
    }
    assert compiled[True].identity != compiled[False].identity
    for keeps, wanted in ((True, obj), (False, {"metadata": {"name": "a"}, "spec": {"list": [{"a": "b"}]}})):
        unknown: list[str] = []
        written = {**obj, "metadata": {"name": "a"}, "spec": {**obj["spec"], "list": [dict(obj["spec"]["list"][0])]}}
        compiled[keeps].process(written, unknown)
        assert written == wanted
        assert unknown == ([] if keeps else ["other", "spec.list[0].c", "spec.x"])


def test_values_are_validated_by_a_schema_without_types() -> None:
    schema = {
        "properties": {"spec": {"properties": {"size": {"minimum": 1}, "name": {"pattern": "^a"}}}},
        "anyOf": [{"required": ["spec"]}],
    }
    compiled = compile_definition(keeping(schema)).versions["v1"].schema()
    errors = compiled.validate({"metadata": {}, "spec": {"size": 0, "name": "b"}})
    assert sorted(e.field for e in errors) == ["spec.name", "spec.size"]
    assert compiled.validate({"metadata": {}, "spec": {"size": 1, "name": "ab"}}) == []
    assert compiled.validate({"metadata": {}}) != []


def test_published_openapi() -> None:
    structural = compile_definition(keeping({"type": "object", "properties": {"spec": {"type": "object"}}}))
    loose = compile_definition(keeping(LOOSE))
    [given], [not_given] = (d.versions.values() for d in (structural, loose))
    assert set(published_v3(given.schema().json)["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert "x-registry-preserve-unknown-fields" not in published_v3(given.schema().json)
    assert published_v3(not_given.schema().json) == {"type": "object"}
    assert published_v2(given.schema().json) == published_v2(not_given.schema().json) == {"type": "object"}
