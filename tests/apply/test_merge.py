"""Merging what is applied into what is there, and taking fields out."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry.apply.fieldsets import FieldSet
from registry.apply.merge import merge, remove
from tests.apply.schemas import spec_type


@pytest.mark.parametrize(
    "live, applied, expected",
    [
        pytest.param({"color": "a", "size": 1}, {"color": "b"}, {"color": "b", "size": 1}, id="scalars"),
        pytest.param({"color": "a"}, {"color": None}, {"color": None}, id="null for a scalar"),
        pytest.param(
            {"frame": {"width": 1}}, {"frame": {"height": 2}}, {"frame": {"width": 1, "height": 2}}, id="maps"
        ),
        pytest.param({"frame": {"width": 1}}, {"frame": {}}, {"frame": {"width": 1}}, id="an empty map adds nothing"),
        pytest.param({"frame": {"width": 1}}, {"frame": None}, {"frame": {"width": 1}}, id="null spares a map"),
        pytest.param({"frame": {}}, {"frame": None}, {"frame": None}, id="but not an empty one"),
        pytest.param({"stamp": {"ink": "a"}}, {"stamp": {"pad": "b"}}, {"stamp": {"pad": "b"}}, id="an atomic map"),
        pytest.param({"steps": ["a"]}, {"steps": ["b"]}, {"steps": ["b"]}, id="an atomic list"),
        pytest.param({"tags": ["a"]}, {"tags": None}, {"tags": ["a"]}, id="null spares a set"),
        pytest.param({"open": {"a": [1]}}, {"open": {"a": None}}, {"open": {"a": None}}, id="null for an untyped list"),
        pytest.param({"open": {"a": {"b": 1}}}, {"open": {"a": "x"}}, {"open": {"a": "x"}}, id="another kind"),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}]},
            {"rooms": [{"name": "n"}, {"name": "m"}]},
            {"rooms": [{"name": "n", "area": 1}, {"name": "m"}]},
            id="keyed items",
        ),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}, {"name": "n", "area": 2}]},
            {"rooms": [{"name": "n", "area": 3}]},
            {"rooms": [{"name": "n", "area": 3}]},
            id="duplicates give way",
        ),
        pytest.param(
            {"ports": [{"port": 1, "proto": "tcp"}]},
            {"ports": [{"port": 1, "note": "x"}]},
            {"ports": [{"port": 1, "proto": "tcp", "note": "x"}]},
            id="a defaulted key",
        ),
    ],
)
def test_merge(live: Any, applied: Any, expected: Any) -> None:
    inputs = copy.deepcopy((live, applied))
    assert merge(live, applied, spec_type()) == expected
    assert (live, applied) == inputs


@pytest.mark.parametrize(
    "live, applied, expected",
    [
        ("cxbya21", "a1c", "xbya21c"),
        ("ab", "ba", "ba"),
        ("abc", "c", "abc"),
        ("abc", "ca", "bca"),
        ("abc", "xa", "xabc"),
        ("abc", "ax", "abcx"),
        ("", "ab", "ab"),
        ("axbyc", "cba", "xycba"),
        ("aab", "a", "ab"),
        ("abcde", "ebx", "acdebx"),
    ],
)
def test_order(live: str, applied: str, expected: str) -> None:
    found = merge({"tags": list(live)}, {"tags": list(applied)}, spec_type())["tags"]
    assert sorted(found) == sorted(set(live) | set(applied))
    assert [tag for tag in found if tag in applied] == list(applied)
    assert "".join(found) == expected


def test_a_merge_without_changes_returns_the_live_value() -> None:
    live = {
        "color": "a",
        "frame": {"width": 1},
        "rooms": [{"name": "n", "area": 1}],
        "steps": ["x"],
        "size": 1,
        "open": {"a": {"b": [1]}},
        "tags": ["x", "y"],
        "flag": None,
    }
    assert merge(live, copy.deepcopy(live), spec_type()) is live
    assert merge(live, {"tags": ["y"], "size": 1.0}, spec_type())["tags"] is live["tags"]


@pytest.mark.parametrize(
    "value, fields, expected",
    [
        pytest.param({"color": "a", "size": 1}, {"f:color": {}}, {"size": 1}, id="a scalar"),
        pytest.param({"frame": {"width": 1}}, {"f:frame": {"f:width": {}}}, {"frame": {}}, id="the last member"),
        pytest.param({"frame": {"width": 1}}, {"f:frame": {".": {}, "f:width": {}}}, {}, id="a map with its members"),
        pytest.param({"tags": ["a", "b"]}, {"f:tags": {'v:"a"': {}}}, {"tags": ["b"]}, id="an item"),
        pytest.param({"tags": ["a"]}, {"f:tags": {'v:"a"': {}}}, {"tags": []}, id="the last item"),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}]},
            {"f:rooms": {'k:{"name":"n"}': {"f:area": {}}}},
            {"rooms": [{"name": "n"}]},
            id="a member of an item",
        ),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}]},
            {"f:rooms": {'k:{"name":"n"}': {".": {}, "f:area": {}}}},
            {"rooms": []},
            id="an item with its members",
        ),
        pytest.param(
            {"stamp": {"ink": "a"}}, {"f:stamp": {"f:ink": {}}}, {"stamp": {"ink": "a"}}, id="in an atomic map"
        ),
        pytest.param(
            {"color": "a"}, {"f:size": {}, "f:frame": {"f:width": {}}}, {"color": "a"}, id="what is not there"
        ),
    ],
)
def test_remove(value: Any, fields: FieldSet, expected: Any) -> None:
    inputs = copy.deepcopy(value)
    assert remove(value, fields, spec_type()) == expected
    assert value == inputs


def test_deep_values_are_merged_without_recursion() -> None:
    live: Any = {"x": 1}
    applied: Any = {"y": 2}
    for _ in range(10_000):
        live, applied = {"a": live}, {"a": applied}
    merged = merge({"open": live}, {"open": applied}, spec_type())
    assert merge(merged, {"open": applied}, spec_type()) is merged
