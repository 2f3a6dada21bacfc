"""JSON merge patches: the table of RFC 7386, the reference's treatment of nulls, depth."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry.apply.errors import PatchUndecodable
from registry.apply.patches.merge_patch import apply_merge_patch, decode_merge_patch


@pytest.mark.parametrize(
    "document, patch, expected",
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replace"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}, id="remove"),
        pytest.param({"a": "b"}, {"x": None}, {"a": "b"}, id="remove nothing"),
        pytest.param({"a": ["b"]}, {"a": "c"}, {"a": "c"}, id="a list becomes a scalar"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="nested"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="lists are replaced"),
        pytest.param({"a": {"b": 1}}, {"a": [1]}, {"a": [1]}, id="an object becomes a list"),
        pytest.param({"a": None}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}, id="nulls of a new object go"),
        pytest.param({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}, id="nulls of a new deep object go"),
        pytest.param({"l": [1]}, {"l": [{"a": None}, None]}, {"l": [{}, None]}, id="nulls in lists"),
        pytest.param({"a": 1}, ["x"], ["x"], id="a patch that is no object"),
        pytest.param(["x"], {"a": 1, "b": None}, {"a": 1}, id="a document that is no object"),
    ],
)
def test_merge(document: Any, patch: Any, expected: Any) -> None:
    inputs = copy.deepcopy((document, patch))
    assert apply_merge_patch(document, patch) == expected
    assert (document, patch) == inputs


def test_unchanged_parts_are_shared() -> None:
    document = {"a": {"b": [1]}, "c": {"d": 1}}
    result = apply_merge_patch(document, {"c": {"d": 2}})
    assert result["a"] is document["a"]


@pytest.mark.parametrize(
    "document, strict, message",
    [
        pytest.param(None, True, "Invalid JSON Patch", id="null"),
        pytest.param(None, False, "Invalid JSON Patch", id="null, lenient"),
        pytest.param(
            [],
            True,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
            id="list",
        ),
        pytest.param(
            5,
            True,
            "error decoding patch: json: cannot unmarshal number into Go value of type map[string]interface {}",
            id="number",
        ),
    ],
)
def test_undecodable(document: Any, strict: bool, message: str) -> None:
    with pytest.raises(PatchUndecodable) as caught:
        decode_merge_patch(document, strict=strict)
    assert str(caught.value) == message


def test_patches_that_are_not_objects_pass_without_strict_validation() -> None:
    assert decode_merge_patch([1], strict=False) == [1]


def test_deep_documents_are_patched_without_recursion() -> None:
    document: Any = {"x": 1}
    patch: Any = {"y": None, "z": {"n": None}}
    for _ in range(10_000):
        document, patch = {"a": document}, {"a": patch, "new": None}
    result = apply_merge_patch(document, patch)
    for _ in range(10_000):
        result = result["a"]
    assert result == {"x": 1, "z": {}}


@pytest.mark.parametrize("value", [[{"a": 1}], {"b": [{"a": 1}]}])
def test_the_result_shares_nothing_with_the_patch(value: Any) -> None:
    """It may be changed in place, and the patch applied again."""
    for old in ({"x": {"b": 1}}, {"x": 1}, {}):
        patch = {"x": copy.deepcopy(value)}
        result = apply_merge_patch(old, patch)
        (result["x"] if isinstance(value, list) else result["x"]["b"])[0]["a"] = 2
        assert patch == {"x": value}
