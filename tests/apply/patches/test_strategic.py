"""Strategic merge patches: what merges, directives, order, errors."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry.apply.errors import PatchInapplicable, PatchUndecodable, StrategicPatchError
from registry.apply.patches.strategic import apply_strategic


def owners(*uids: str, **more: Any) -> list[dict[str, Any]]:
    return [{"uid": uid, **more} for uid in uids]


@pytest.mark.parametrize(
    "document, patch, expected",
    [
        pytest.param(
            {"data": {"a": "1", "b": "2"}},
            {"data": {"a": None, "c": "3"}},
            {"data": {"b": "2", "c": "3"}},
            id="maps merge, null removes",
        ),
        pytest.param({}, {"data": {"a": None, "b": {"c": None}}}, {"data": {"b": {}}}, id="nulls of a new map go"),
        pytest.param({"rules": [1]}, {"rules": [2]}, {"rules": [2]}, id="a list without a key is replaced"),
        pytest.param(
            {"data": {"a": "1"}}, {"data": {"$patch": "replace", "b": "2"}}, {"data": {"b": "2"}}, id="replace"
        ),
        pytest.param({"data": {"a": "1"}}, {"data": {"$patch": "delete"}}, {"data": {}}, id="delete"),
        pytest.param({}, {"data": {"$patch": "replace", "b": "2"}}, {}, id="a directive for what is not there"),
        pytest.param({"x": {"a": 1}}, {"x": {"y": {"$patch": "delete"}}}, {"x": {"a": 1}}, id="a nested one"),
        pytest.param(
            {"spec": {"a": 1, "b": 2}}, {"spec": {"$retainKeys": ["a"], "a": 3}}, {"spec": {"a": 3}}, id="retain"
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c", "b"]}},
            {"metadata": {"finalizers": ["c", "a", "b"]}},
            id="a set merges, the new in front",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b"]}},
            id="delete from a set",
        ),
        pytest.param(
            {"metadata": {}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {}},
            id="delete from no set",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            {"metadata": {"$setElementOrder/finalizers": ["c", "a"]}},
            {"metadata": {"finalizers": ["b", "c", "a"]}},
            id="order of a set",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": owners("u1", "u2", n=1)}},
            {"metadata": {"ownerReferences": owners("u3", "u2", n=2)}},
            {"metadata": {"ownerReferences": [{"uid": "u3", "n": 2}, {"uid": "u1", "n": 1}, {"uid": "u2", "n": 2}]}},
            id="a keyed list merges",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": owners("u1", "u2")}},
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u1"}]}},
            {"metadata": {"ownerReferences": owners("u2")}},
            id="delete an item",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": owners("u1", "u2")}},
            {"metadata": {"ownerReferences": [{"$patch": "replace"}, *owners("u3")]}},
            {"metadata": {"ownerReferences": owners("u3")}},
            id="replace a keyed list",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": owners("u1", "u2")}},
            {
                "metadata": {
                    "$setElementOrder/ownerReferences": owners("u3", "u2", "u1"),
                    "ownerReferences": owners("u3"),
                }
            },
            {"metadata": {"ownerReferences": owners("u3", "u2", "u1")}},
            id="order of a keyed list",
        ),
        pytest.param(
            {"secrets": [{"name": "a"}]},
            {"secrets": [{"name": "b"}]},
            {"secrets": [{"name": "b"}, {"name": "a"}]},
            id="secrets of a service account",
        ),
        pytest.param(
            {"imagePullSecrets": [{"name": "a"}]},
            {"imagePullSecrets": [{"name": "b"}]},
            {"imagePullSecrets": [{"name": "b"}]},
            id="image pull secrets do not merge",
        ),
        pytest.param({"a": 1}, None, {"a": 1}, id="null"),
        pytest.param({"a": 1}, {"a": "x"}, {"a": "x"}, id="another type"),
    ],
)
def test_merge(document: dict[str, Any], patch: Any, expected: dict[str, Any]) -> None:
    inputs = copy.deepcopy((document, patch))
    assert apply_strategic("ServiceAccount", document, patch) == expected
    assert (document, patch) == inputs


@pytest.mark.parametrize(
    "patch, code, message",
    [
        pytest.param(
            {"data": {"$patch": "merge", "b": "2"}},
            500,
            "unknown patch type: merge in map: map[$patch:merge b:2]",
            id="unknown directive",
        ),
        pytest.param(
            {"data": {"$patch": 5}}, 500, "unknown patch type: %!s(int64=5) in map: map[$patch:5]", id="a number"
        ),
        pytest.param(
            {"data": {"$patch": None}}, 500, "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]", id="a null"
        ),
        pytest.param(
            {"data": {"$patch": ["a", 1.5, None, {"b": True}]}},
            500,
            "unknown patch type: [a %!s(float64=1.5) <nil> map[b:%!s(bool=true)]] in map: "
            "map[$patch:[a 1.5 <nil> map[b:true]]]",
            id="a list",
        ),
        pytest.param(
            {"data": {"$retainKeys": ["a"], "b": "2"}}, 400, "invalid patch format of retainKeys", id="not retained"
        ),
        pytest.param({"data": {"$retainKeys": "a"}}, 400, "invalid patch format of retainKeys", id="retain no list"),
        pytest.param(
            {"metadata": {"ownerReferences": [{"name": "x"}]}},
            500,
            "map: map[name:x] does not contain declared merge key: uid",
            id="an item without its key",
        ),
        pytest.param(
            {"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": ["z"]}},
            500,
            "The order in patch list:\n[z]\n doesn't match $setElementOrder list:\n[a]\n",
            id="not in the order",
        ),
        pytest.param(
            {"metadata": {"$setElementOrder": ["a"]}},
            400,
            "invalid patch format of setElementOrder list",
            id="the order of nothing",
        ),
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveListX/finalizers": ["a"]}},
            400,
            "invalid patch format of primitive list",
            id="a misspelt directive",
        ),
        pytest.param(
            {"metadata": {"finalizers": [1]}}, 500, "list element types are not identical: [[a] [1]]", id="mixed"
        ),
    ],
)
def test_errors(patch: Any, code: int, message: str) -> None:
    document = {"data": {"a": "1"}, "metadata": {"finalizers": ["a"], "ownerReferences": owners("u")}}
    with pytest.raises(StrategicPatchError) as caught:
        apply_strategic("ConfigMap", document, patch)
    assert (caught.value.code, str(caught.value)) == (code, message)


def test_lists_of_lists_are_refused() -> None:
    with pytest.raises(PatchInapplicable):
        apply_strategic("ConfigMap", {"metadata": {"finalizers": [["a"]]}}, {"metadata": {"finalizers": [["b"]]}})


def test_a_patch_must_be_an_object() -> None:
    with pytest.raises(PatchUndecodable, match="cannot unmarshal array into Go value"):
        apply_strategic("ConfigMap", {}, [1])


def test_a_patch_too_deep_is_refused() -> None:
    deep: Any = {}
    for _ in range(10_000):
        deep = {"a": deep}
    with pytest.raises(StrategicPatchError, match="too deeply"):
        apply_strategic("ConfigMap", {}, deep)


PORTS = [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]


@pytest.mark.parametrize(
    "kind, path, before, patch, after",
    [
        pytest.param(
            "Service",
            ("spec", "ports"),
            PORTS,
            [{"port": 81, "name": "c"}],
            [{"port": 80, "name": "a"}, {"port": 81, "name": "c"}],
            id="a port is changed",
        ),
        pytest.param(
            "Service",
            ("spec", "ports"),
            PORTS,
            [{"port": 80, "$patch": "delete"}],
            [{"port": 81, "name": "b"}],
            id="a port is removed",
        ),
        pytest.param(
            "Service",
            ("spec", "ports"),
            PORTS,
            [{"$patch": "replace"}, {"port": 9}],
            [{"port": 9}],
            id="ports are replaced",
        ),
        *(
            pytest.param(
                kind,
                ("status", "conditions"),
                [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}],
                [{"type": "A", "status": "False"}],
                [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}],
                id=f"conditions of a {kind}",
            )
            for kind in ("Service", "Namespace", "APIService", "StorageVersionMigration")
        ),
    ],
)
def test_lists_that_are_merged(kind: str, path: tuple[str, str], before: Any, patch: Any, after: Any) -> None:
    outer, inner = path
    assert apply_strategic(kind, {outer: {inner: before}}, {outer: {inner: patch}}) == {outer: {inner: after}}
