"""Equality as Kubernetes sees it."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.values import equal


@pytest.mark.parametrize(
    "left, right, expected",
    [
        pytest.param(1, 1.0, True, id="an integer and a float"),
        pytest.param(1, True, False, id="one and true"),
        pytest.param(0.0, False, False, id="zero and false"),
        pytest.param("5", 5, False, id="text and number"),
        pytest.param(None, None, True, id="null"),
        pytest.param(None, False, False, id="null and false"),
        pytest.param({"a": [1, {"b": True}]}, {"a": [1.0, {"b": True}]}, True, id="nested"),
        pytest.param({"a": [1, {"b": True}]}, {"a": [1, {"b": 1}]}, False, id="nested one and true"),
        pytest.param([1, 2], [2, 1], False, id="order of a list"),
        pytest.param([1], [1, 2], False, id="length"),
        pytest.param({"a": 1}, {"b": 1}, False, id="keys"),
        pytest.param({"a": None}, {"b": None}, False, id="null and absent"),
        pytest.param({}, [], False, id="empty map and empty list"),
        pytest.param([{}], [[]], False, id="nested empty map and list"),
    ],
)
def test_equal(left: Any, right: Any, expected: bool) -> None:
    assert equal(left, right) is expected
    assert equal(right, left) is expected
