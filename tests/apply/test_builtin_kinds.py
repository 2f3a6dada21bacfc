"""What is particular to built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.fieldsets import FieldSet
from registry.apply.kind import builtin_resets, with_zeros
from registry.builtin.structs import CORE, RBAC
from registry.codec.structs.structs import Struct, zero_members


@pytest.mark.parametrize(
    "value, zeros, expected",
    [
        pytest.param({}, {"spec": {}}, {"spec": {}}, id="missing"),
        pytest.param({"spec": None}, {"spec": {}}, {"spec": {}}, id="null"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 0, "b": ""}}, {"spec": {"a": 1, "b": ""}}, id="nested"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"l": None}}, {"spec": {"a": 1, "l": None}}, id="a null list"),
        pytest.param({"spec": "odd"}, {"spec": {"a": 0}}, {"spec": "odd"}, id="another type"),
    ],
)
def test_zeros(value: Any, zeros: Any, expected: Any) -> None:
    before = repr(value)
    assert with_zeros(value, zeros) == expected
    assert repr(value) == before


@pytest.mark.parametrize(
    "struct, expected",
    [
        pytest.param(CORE["ConfigMap"], {}, id="none"),
        pytest.param(CORE["Service"], {"spec": {}, "status": {"loadBalancer": {}}}, id="structs"),
        pytest.param(RBAC["RoleBinding"], {"roleRef": {"apiGroup": "", "kind": "", "name": ""}}, id="texts"),
        pytest.param(CORE["LimitRange"], {"spec": {"limits": None}}, id="a list"),
    ],
)
def test_zero_members_are_those_that_go_never_omits(struct: Struct, expected: Any) -> None:
    assert zero_members(struct) == expected


def test_a_complete_object_is_returned_unchanged() -> None:
    value = {"spec": {"l": None}, "status": {}}
    assert with_zeros(value, {"spec": {"l": None}, "status": {}}) is value


@pytest.mark.parametrize(
    "kind, subresource, expected",
    [
        ("ConfigMap", "", {}),
        ("Namespace", "", {"f:status": {}}),
        ("Namespace", "finalize", {"f:status": {}}),
        ("Namespace", "status", {"f:spec": {}}),
        ("CustomResourceDefinition", "status", {"f:spec": {}}),
        ("Service", "", {"f:status": {}}),
        ("Service", "status", {"f:spec": {}}),
    ],
)
def test_resets(kind: str, subresource: str, expected: FieldSet) -> None:
    assert builtin_resets(kind, subresource) == expected
