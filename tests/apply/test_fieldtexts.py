"""Path elements: their order, how they are printed, how a client's are read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from registry.apply.fieldsets import FieldSet
from registry.apply.fieldtexts import MAX_DEPTH, UnreadableFields, path_text, paths, read
from tests.apply.paths import some_paths, tree


def test_paths_come_members_first_and_by_name_key_value_and_number() -> None:
    found = read(
        {
            "f:b": {"f:z": {}, "f:y": {"f:c": {}}},
            "f:a": {},
            'k:{"n":10}': {},
            'k:{"n":9}': {},
            'v:"x"': {},
            "v:2": {},
            "i:10": {},
            "i:9": {},
        }
    )
    assert [path_text(path) for path in paths(found)] == [
        ".a",
        "[n=9]",
        "[n=10]",
        "[=2]",
        '[="x"]',
        "[9]",
        "[10]",
        ".b.z",
        ".b.y.c",
    ]


def test_a_path_is_printed_with_sorted_keys() -> None:
    assert (
        path_text(("f:spec", "f:ports", 'k:{"port":80,"proto":"t\\"p"}', "f:example.com/x.y"))
        == '.spec.ports[port=80,proto="t\\"p"].example.com/x.y'
    )


@pytest.mark.parametrize(
    "written, expected",
    [
        pytest.param({"f:a": {".": {}}}, {"f:a": {}}, id="a leaf that says so"),
        pytest.param({"f:a": None}, {"f:a": {}}, id="null is a leaf"),
        pytest.param({".": {}, "f:a": {}}, {"f:a": {}}, id="the root is nobody's"),
        pytest.param({'k:{"b":1.0,"a":2}': {}}, {'k:{"a":2,"b":1}': {}}, id="keys are sorted, numbers canonical"),
        pytest.param({'v:"<"': {}}, {'v:"\\u003c"': {}}, id="texts as Go writes them"),
        pytest.param({"x:a": {}, "f:b": {}}, {"f:b": {}}, id="unknown elements are left out"),
        pytest.param({"i:+1": {}}, {"i:1": {}}, id="an index"),
        pytest.param(None, {}, id="nothing"),
    ],
)
def test_read(written: Any, expected: FieldSet) -> None:
    assert read(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        pytest.param({"spec": {}}, id="no kind"),
        pytest.param({"a": {}}, id="one letter"),
        pytest.param([], id="list"),
        pytest.param({"f:a": 1}, id="a number"),
        pytest.param({"k:x": {}}, id="broken key"),
        pytest.param({"k:1": {}}, id="a key that is no object"),
        pytest.param({'k:{"a":[]}': {}}, id="a list for a key"),
        pytest.param({"v:{}": {}}, id="a map for an item"),
        pytest.param({"i:x": {}}, id="broken index"),
        pytest.param({"v:": {}}, id="no value"),
        pytest.param({"v:NaN": {}}, id="a value that is no JSON"),
    ],
)
def test_unreadable(written: Any) -> None:
    with pytest.raises(UnreadableFields):
        read(written)


def test_the_depth_of_field_sets_is_bounded() -> None:
    deep: Any = {}
    for _ in range(MAX_DEPTH + 2):
        deep = {"f:a": deep}
    with pytest.raises(UnreadableFields):
        read(deep)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(some_paths)
def test_field_sets_round_trip(members: frozenset[tuple[str, ...]]) -> None:
    assert read(tree(members)) == tree(members)
