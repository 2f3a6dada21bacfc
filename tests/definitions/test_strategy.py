from __future__ import annotations

from typing import Any

import pytest

from registry.definitions import strategy
from registry.definitions.conditions import find
from registry.definitions.decode import canonical
from tests.definitions.crds import crd, established, prepared, version

NOW = "2024-05-06T07:08:09Z"


def test_create_drops_fields_that_clients_may_not_set() -> None:
    body = crd(metadata={"namespace": "n", "generation": 7, "finalizers": ["a.b/c"]})
    body["status"] = {"storedVersions": ["v9"], "conditions": [{"type": "Established", "status": "True"}]}
    found = canonical(prepared(body))
    assert found["metadata"] == {"name": "widgets.g.example.com", "generation": 1, "finalizers": ["a.b/c"]}
    assert found["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }


@pytest.mark.parametrize(
    "change, generation",
    [
        pytest.param({}, 1, id="nothing"),
        pytest.param({"preserveUnknownFields": False}, 1, id="a zero value"),
        pytest.param({"versions": [version(additionalPrinterColumns=[])]}, 1, id="an empty list"),
        pytest.param({"versions": [version(schema={"type": "object", "title": "t"})]}, 2, id="the schema"),
        pytest.param({"versions": [version(schema={"type": "object", "default": True})]}, 2, id="a default"),
    ],
)
def test_generation(change: dict[str, Any], generation: int) -> None:
    old = canonical(established(crd()))
    assert strategy.prepare_for_update(prepared(crd(**change)), old)["metadata"]["generation"] == generation


def test_generation_distinguishes_true_from_1() -> None:
    old = established(crd({"type": "object", "default": 1}))
    new = strategy.prepare_for_update(prepared(crd({"type": "object", "default": True})), old)
    assert new["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    "stored, storage, expected",
    [
        pytest.param(["v1"], "v1", ["v1"], id="same"),
        pytest.param(["v1"], "v2", ["v1", "v2"], id="switched"),
        pytest.param(["v1", "v2"], "v1", ["v1", "v2"], id="switched back"),
    ],
)
def test_update_adds_the_storage_version_to_stored_versions(
    stored: list[str], storage: str, expected: list[str]
) -> None:
    versions = [version(name, storage=name == storage) for name in ("v1", "v2")]
    new = prepared(crd(versions=versions)) | {"status": {"storedVersions": ["v7"]}}
    old = established(crd(), storedVersions=stored)
    assert strategy.prepare_for_update(new, old)["status"] == {**old["status"], "storedVersions": expected}
    assert old["status"]["storedVersions"] == stored


@pytest.mark.parametrize(
    "given, expected", [pytest.param(["x"], ["x"], id="anything goes"), pytest.param([], ["v1"], id="refilled")]
)
def test_status_update(given: list[str], expected: list[str]) -> None:
    old = established(crd())
    new = {
        **old,
        "spec": {"group": "x"},
        "metadata": {**old["metadata"], "labels": {"a": "b"}, "generation": 9},
        "status": {"storedVersions": given},
    }
    found = strategy.prepare_for_status_update(new, old)
    assert found["spec"] == old["spec"]
    assert found["metadata"]["labels"] == {"a": "b"}
    assert found["metadata"]["generation"] == 1
    assert found["status"] == {"storedVersions": expected}


def terminating(definition: dict[str, Any]) -> tuple[str, str]:
    condition = find(definition, "Terminating")
    assert condition is not None
    return condition["status"], condition["reason"]


@pytest.mark.parametrize(
    "conditions, reason",
    [
        pytest.param(None, "InstanceDeletionCompleted", id="established"),
        pytest.param([], "NeverEstablished", id="never"),
    ],
)
def test_deletion(conditions: list[Any] | None, reason: str) -> None:
    definition = established(
        crd(metadata={"finalizers": ["a.b/c"]}), **({} if conditions is None else {"conditions": conditions})
    )
    marked = strategy.mark_for_deletion(definition, NOW)
    assert marked["metadata"]["deletionTimestamp"] == NOW
    assert marked["metadata"]["finalizers"] == ["a.b/c", strategy.CLEANUP_FINALIZER]
    assert terminating(marked) == ("True", "InstanceDeletionPending")
    assert strategy.awaits_cleanup(marked)
    assert strategy.is_terminating(marked)
    again = strategy.mark_for_deletion(marked, "2030-01-01T00:00:00Z")
    assert again == {**marked, "metadata": {**marked["metadata"], "deletionGracePeriodSeconds": 0}}

    begun = strategy.begin_cleanup(marked, NOW)
    assert terminating(begun) == ("True", "InstanceDeletionInProgress")
    done = strategy.finish_cleanup(begun, NOW)
    assert terminating(done) == ("False", reason)
    assert done["metadata"]["finalizers"] == ["a.b/c"]
    assert not strategy.awaits_cleanup(done)
    assert "finalizers" not in definition["metadata"] or definition["metadata"]["finalizers"] == ["a.b/c"]


def test_removing_the_last_finalizer_removes_the_field() -> None:
    done = strategy.finish_cleanup(strategy.mark_for_deletion(established(crd()), NOW), NOW)
    assert "finalizers" not in done["metadata"]
