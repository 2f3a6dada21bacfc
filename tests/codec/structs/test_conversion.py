"""Errors of converting a strategically merged object to its struct."""

from __future__ import annotations

from typing import Any

import pytest

from registry.builtin.structs import CORE
from registry.codec.structs.conversion import conversion_fault
from registry.codec.structs.structs import Struct
from registry.definitions.types import CustomResourceDefinition

ConfigMap, LimitRange, Service, ServiceAccount = (
    CORE[name] for name in ("ConfigMap", "LimitRange", "Service", "ServiceAccount")
)


@pytest.mark.parametrize(
    "struct, obj, fault",
    [
        pytest.param(ConfigMap, {"data": {"a": "b"}, "immutable": True}, None, id="nothing wrong"),
        pytest.param(ConfigMap, {"data": None, "zz": 1}, None, id="null, and an unknown field"),
        pytest.param(ConfigMap, {"data": {"a": 1}}, "cannot convert int64 to string", id="a number for a text"),
        pytest.param(ConfigMap, {"data": {"a": 1.5}}, "unrecognized type: string", id="a fraction for a text"),
        pytest.param(ConfigMap, {"data": {"a": True}}, "unrecognized type: string", id="true for a text"),
        pytest.param(ConfigMap, {"data": "a"}, "cannot restore map from string", id="a text for a map"),
        pytest.param(ConfigMap, {"data": ["a"]}, "cannot restore map from slice", id="a list for a map"),
        pytest.param(ConfigMap, {"immutable": "a"}, "unrecognized type: bool", id="a text for a bool"),
        pytest.param(ConfigMap, {"metadata": 1}, "cannot restore struct from: int64", id="a number for a struct"),
        pytest.param(ConfigMap, {"metadata": {"labels": {"a": 1}}}, "cannot convert int64 to string", id="a label"),
        pytest.param(ConfigMap, {"metadata": {"uid": 1}}, "cannot convert int64 to types.UID", id="a named string type"),
        pytest.param(ConfigMap, {"binaryData": {"a": 1}}, "cannot restore slice from int64", id="a number for bytes"),
        pytest.param(ConfigMap, {"binaryData": {"a": ["x"]}}, "unrecognized type: uint8", id="texts for bytes"),
        pytest.param(ConfigMap, {"binaryData": {"a": [None, {}]}}, "unrecognized type: uint8", id="a map for a byte"),
        pytest.param(
            ConfigMap,
            {"binaryData": {"a": "?"}},
            "error decoding from json: illegal base64 data at input byte 0",
            id="bytes that are not base64",
        ),
        pytest.param(ServiceAccount, {"secrets": {}}, "cannot restore slice from map", id="a map for a list"),
        pytest.param(ServiceAccount, {"secrets": ["a"]}, "cannot restore struct from: string", id="an item"),
        pytest.param(Service, {"spec": {"healthCheckNodePort": "a"}}, "unrecognized type: int32", id="a text for a number"),
        pytest.param(Service, {"spec": {"healthCheckNodePort": 2.0}}, None, id="a whole fraction for a number"),
        pytest.param(
            Service, {"spec": {"healthCheckNodePort": 1.5}}, "cannot convert float64 to int32", id="a fraction for a number"
        ),
        pytest.param(
            LimitRange,
            {"spec": {"limits": [{"max": {"cpu": "x"}}]}},
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="a type with a decoder of its own",
        ),
        pytest.param(CustomResourceDefinition, {"spec": "a"}, "cannot restore struct from: string", id="a definition"),
    ],
)  # fmt: skip
def test_conversion_fault(struct: Struct, obj: dict[str, Any], fault: str | None) -> None:
    assert conversion_fault(struct, obj) == fault
