"""JSON patches: each operation, pointers, leniencies, errors, limits, and that the input stays as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.apply.errors import PatchInapplicable, PatchTooLong, PatchUndecodable
from registry.apply.patches.json_patch import MAX_OPERATIONS, apply_json_patch, decode

DOCUMENT: dict[str, Any] = {
    "spec": {
        "size": 1,
        "tags": ["x", "y", "z"],
        "opts": {"a": "1", "b/c": "2", "d~e": "3"},
        "none": None,
        "parts": [{"id": "p", "n": 1}],
    }
}


def op(kind: str, path: str | None = None, **more: Any) -> dict[str, Any]:
    result: dict[str, Any] = {"op": kind, **more}
    if path is not None:
        result["path"] = path
    return result


@pytest.mark.parametrize(
    "operations, path, expected",
    [
        pytest.param([op("add", "/spec/color", value="red")], "spec.color", "red", id="add to a map"),
        pytest.param([op("add", "/spec/size", value=2)], "spec.size", 2, id="add replaces"),
        pytest.param([op("add", "/spec/tags/-", value="w")], "spec.tags", ["x", "y", "z", "w"], id="add at the end"),
        pytest.param([op("add", "/spec/tags/1", value="i")], "spec.tags", ["x", "i", "y", "z"], id="insert"),
        pytest.param([op("add", "/spec/tags/3", value="i")], "spec.tags", ["x", "y", "z", "i"], id="insert last"),
        pytest.param([op("add", "/spec/tags/-1", value="i")], "spec.tags", ["x", "y", "z", "i"], id="insert at -1"),
        pytest.param(
            [op("add", "/spec/tags/+1", value="i")], "spec.tags", ["x", "i", "y", "z"], id="index with a sign"
        ),
        pytest.param([op("add", "/spec/color")], "spec.color", None, id="add without a value"),
        pytest.param([op("remove", "/spec/tags/0")], "spec.tags", ["y", "z"], id="remove from a list"),
        pytest.param([op("remove", "/spec/tags/-1")], "spec.tags", ["x", "y"], id="remove the last"),
        pytest.param([op("remove", "/spec/opts/b~1c")], "spec.opts", {"a": "1", "d~e": "3"}, id="escaped slash"),
        pytest.param(
            [op("replace", "/spec/opts/d~0e", value="4")],
            "spec.opts",
            {"a": "1", "b/c": "2", "d~e": "4"},
            id="escaped tilde",
        ),
        pytest.param([op("replace", "/spec/new", value=1)], "spec.new", 1, id="replace adds a missing member"),
        pytest.param([op("replace", "/spec/tags/-3", value="a")], "spec.tags", ["a", "y", "z"], id="replace in a list"),
        pytest.param(
            [op("move", "/spec/opts/aa", **{"from": "/spec/opts/a"})],
            "spec.opts",
            {"aa": "1", "b/c": "2", "d~e": "3"},
            id="move",
        ),
        pytest.param(
            [op("move", "/spec/tags/0", **{"from": "/spec/tags/2"})],
            "spec.tags",
            ["z", "x", "y"],
            id="move within a list",
        ),
        pytest.param(
            [op("copy", "/spec/parts/-", **{"from": "/spec/parts/0"}), op("replace", "/spec/parts/1/n", value=2)],
            "spec.parts",
            [{"id": "p", "n": 1}, {"id": "p", "n": 2}],
            id="a copy is apart",
        ),
        pytest.param(
            [op("copy", "/spec/color", **{"from": "/spec/nothing"})], "spec.color", None, id="copy of nothing"
        ),
        pytest.param(
            [op("test", "/spec/size", value=1), op("replace", "/spec/size", value=3)], "spec.size", 3, id="test"
        ),
        pytest.param([op("test", "/spec/size", value=1.0)], "spec.size", 1, id="test compares numbers by value"),
        pytest.param([op("test", "/spec/nothing", value=None)], "spec.size", 1, id="test null where nothing is"),
        pytest.param([op("test", "/spec/none", value=None)], "spec.size", 1, id="test null where null is"),
        pytest.param([op("test", "/spec/nothing")], "spec.size", 1, id="test without a value"),
        pytest.param([op("test", "", value=DOCUMENT)], "spec.size", 1, id="test of the whole"),
        pytest.param([op("add", "spec/color", value="x")], "color", "x", id="a pointer without a slash"),
        pytest.param([op("add", "/", value="x")], "", "x", id="the empty key"),
        pytest.param([op("replace", "", value={"a": 1})], "a", 1, id="replace the whole"),
        pytest.param([], "spec.size", 1, id="nothing"),
    ],
)
def test_operations(operations: list[Any], path: str, expected: Any) -> None:
    before = copy.deepcopy(DOCUMENT)
    result = apply_json_patch(DOCUMENT, decode(operations))
    for name in path.split("."):
        result = result[name]
    assert result == expected
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "operations, message",
    [
        pytest.param(
            [op("remove", "/spec/x")],
            "error in remove for path: '/spec/x': Unable to remove nonexistent key: x: missing value",
            id="remove",
        ),
        pytest.param(
            [op("remove", "/spec/tags/3")],
            "error in remove for path: '/spec/tags/3': Unable to access invalid index: 3: invalid index referenced",
            id="remove behind the end",
        ),
        pytest.param(
            [op("remove", "/spec/tags/-4")],
            "error in remove for path: '/spec/tags/-4': Unable to access invalid index: -4: invalid index referenced",
            id="remove before the start",
        ),
        pytest.param(
            [op("add", "/spec/no/where", value=1)],
            'add operation does not apply: doc is missing path: "/spec/no/where": missing value',
            id="no parent",
        ),
        pytest.param(
            [op("add", "/spec/size/x", value=1)],
            'add operation does not apply: doc is missing path: "/spec/size/x": missing value',
            id="a scalar parent",
        ),
        pytest.param(
            [op("add", "", value={})],
            'add operation does not apply: doc is missing path: "": missing value',
            id="add the whole",
        ),
        pytest.param(
            [op("add", "/spec/tags/x", value=1)],
            "error in add for path: '/spec/tags/x': value was not a proper "
            "array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
            id="no index",
        ),
        pytest.param(
            [op("add", "/spec/tags/99", value=1)],
            "error in add for path: '/spec/tags/99': Unable to access invalid index: 99: invalid index referenced",
            id="add behind the end",
        ),
        pytest.param([op("add", value=1)], "add operation failed to decode path: missing value", id="no path"),
        pytest.param(
            [op("replace", "/spec/tags/9", value=1)],
            "replace operation does not apply: doc is missing key: /spec/tags/9: missing value",
            id="replace",
        ),
        pytest.param(
            [op("replace", "", value=1)],
            "replace operation value must be object or array: %!w(<nil>)",
            id="whole by scalar",
        ),
        pytest.param(
            [op("move", "/spec/a", **{"from": "/spec/x"})],
            "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
            id="move nothing",
        ),
        pytest.param(
            [op("move", "/spec/opts/b", **{"from": "/spec/opts"})],
            "move operation does not apply: doc is missing destination path: /spec/opts/b: missing value",
            id="move into itself",
        ),
        pytest.param(
            [op("move", "/spec/a")],
            "move operation failed to decode from: operation, missing from field: missing value",
            id="no from",
        ),
        pytest.param([op("test", "/spec/size", value=2)], "testing value /spec/size failed: test failed", id="test"),
        pytest.param(
            [op("test", "/spec/size", value=True)], "testing value /spec/size failed: test failed", id="1, true"
        ),
        pytest.param([{"path": "/spec"}], "Unexpected kind: unknown", id="no op"),
        pytest.param([op("mangle", "/spec")], "Unexpected kind: mangle", id="unknown op"),
        pytest.param([None], "Unexpected kind: unknown", id="a null operation"),
    ],
)
def test_inapplicable(operations: list[Any], message: str) -> None:
    with pytest.raises(PatchInapplicable) as caught:
        apply_json_patch(DOCUMENT, decode(operations))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "document, message",
    [
        pytest.param({"a": 1}, "object into Go value of type []handlers.jsonPatchOp", id="an object"),
        pytest.param("x", "string into Go value of type []handlers.jsonPatchOp", id="a string"),
        pytest.param(["x"], "string into Go value of type handlers.jsonPatchOp", id="a list of strings"),
        pytest.param([{"op": 1}], "number into Go struct field jsonPatchOp.op of type string", id="a number for op"),
        pytest.param(
            [{"op": "add", "path": True}], "bool into Go struct field jsonPatchOp.path of type string", id="path"
        ),
    ],
)
def test_undecodable(document: Any, message: str) -> None:
    with pytest.raises(PatchUndecodable) as caught:
        decode(document)
    assert str(caught.value) == f"error decoding patch: json: cannot unmarshal {message}"


def test_unknown_members_are_reported_only_on_request() -> None:
    document = [op("test", "/a"), op("replace", "/a", value=5, extra=1)]
    assert decode(document).unknown_members == ('json patch unknown field "[1].extra"',)
    assert decode(document, strict=False).unknown_members == ()


@pytest.mark.parametrize("kind, path", [("add", "/spec/new"), ("replace", "/spec/opts"), ("replace", "")])
def test_a_result_of_own_values_shares_none_with_the_patch(kind: str, path: str) -> None:
    patch = decode([op(kind, path, value={"a": [{"b": 1}]})])
    expected = copy.deepcopy(apply_json_patch(DOCUMENT, patch))
    result = apply_json_patch(DOCUMENT, patch.with_own_values())
    assert result == expected
    value = result if not path else result["spec"][path.rpartition("/")[2]]
    value["a"][0]["b"] = 2
    value["c"] = 3
    assert apply_json_patch(DOCUMENT, patch) == expected


def test_null_is_the_empty_patch() -> None:
    assert apply_json_patch(DOCUMENT, decode(None)) is DOCUMENT


def test_the_number_of_operations_is_bounded() -> None:
    decode([op("test", "/kind")] * MAX_OPERATIONS)
    with pytest.raises(PatchTooLong, match="is 10000, got 10001"):
        decode([op("test", "/kind")] * (MAX_OPERATIONS + 1))


def test_repeated_copies_are_limited_in_size() -> None:
    patch = [op("copy", "/a/-", **{"from": "/a"})] * 40
    with pytest.raises(PatchInapplicable, match="the accumulated size increase of copy is"):
        apply_json_patch({"a": ["x" * 1000]}, decode(patch))


def test_deep_documents_are_patched_without_recursion() -> None:
    deep: Any = 1
    for _ in range(10_000):
        deep = {"a": deep}
    result = apply_json_patch(
        deep,
        decode(
            [
                op("copy", "/b", **{"from": "/a"}),
                op("test", "/b", value=deep["a"]),
                op("replace", "/a" * 9_999, value=2),
            ]
        ),
    )
    for _ in range(9_999):
        result = result["a"]
    assert result == 2


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text("ab~/", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=3), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text("ab~/", max_size=3), values, max_size=4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(objects, objects)
def test_applying_the_difference_of_two_documents(old: dict[str, Any], new: dict[str, Any]) -> None:
    kept = copy.deepcopy(old)
    assert apply_json_patch(old, decode(_difference(old, new))) == new
    assert old == kept


def _difference(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> list[dict[str, Any]]:
    operations = []
    for name in old.keys() | new.keys():
        path = f"{prefix}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in new:
            operations.append(op("remove", path))
        elif name not in old:
            operations.append(op("add", path, value=new[name]))
        elif isinstance(old[name], dict) and isinstance(new[name], dict):
            operations.extend(_difference(old[name], new[name], path))
        elif old[name] != new[name] or type(old[name]) is not type(new[name]):
            operations.append(op("replace", path, value=new[name]))
    return operations
