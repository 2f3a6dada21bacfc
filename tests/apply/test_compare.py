"""What changes between two states."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.compare import changes
from registry.apply.fieldsets import FieldSet
from registry.apply.owned import Untypable
from tests.apply.schemas import spec_type


@pytest.mark.parametrize(
    "old, new, changed, removed",
    [
        pytest.param({"color": "a", "size": 1}, {"color": "b", "size": 1}, {"f:color": {}}, {}, id="another value"),
        pytest.param({"size": 1}, {"size": 1.0}, {}, {}, id="1 and 1.0"),
        pytest.param({"port": 1}, {"port": True}, {"f:port": {}}, {}, id="1 and true"),
        pytest.param({"port": 5}, {"port": "5"}, {"f:port": {}}, {}, id="5 and text"),
        pytest.param({"color": None}, {"color": "b"}, {"f:color": {}}, {}, id="null and a text"),
        pytest.param({"color": "a"}, {"size": 1}, {"f:size": {}}, {"f:color": {}}, id="added and removed"),
        pytest.param(
            {}, {"frame": {"width": 1}}, {"f:frame": {".": {}, "f:width": {}}}, {}, id="a map with its members"
        ),
        pytest.param({"frame": {"width": 1}}, {}, {}, {"f:frame": {".": {}, "f:width": {}}}, id="a map is removed"),
        pytest.param(
            {"frame": {"width": 1}},
            {"frame": {"height": 1}},
            {"f:frame": {"f:height": {}}},
            {"f:frame": {"f:width": {}}},
            id="members of a map",
        ),
        pytest.param(
            {"frame": {}}, {"frame": {"width": 1}}, {"f:frame": {"f:width": {}}}, {}, id="an empty map is filled"
        ),
        pytest.param(
            {"frame": None}, {"frame": {"width": 1}}, {"f:frame": {"f:width": {}}}, {}, id="a null map is filled"
        ),
        pytest.param(
            {"frame": {"width": 1}}, {"frame": None}, {}, {"f:frame": {"f:width": {}}}, id="a map becomes null"
        ),
        pytest.param({"frame": {}}, {"frame": None}, {"f:frame": {}}, {}, id="an empty map becomes null"),
        pytest.param({"stamp": {"ink": "a"}}, {"stamp": {"ink": "b"}}, {"f:stamp": {}}, {}, id="an atomic map"),
        pytest.param({"steps": ["a"]}, {"steps": ["a", "b"]}, {"f:steps": {}}, {}, id="an atomic list"),
        pytest.param({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, {}, {}, id="the order of a set is nobody's"),
        pytest.param(
            {"tags": ["a", "b"]},
            {"tags": ["b", "c"]},
            {"f:tags": {'v:"c"': {}}},
            {"f:tags": {'v:"a"': {}}},
            id="items of a set",
        ),
        pytest.param({"tags": ["a"]}, {"tags": []}, {}, {"f:tags": {'v:"a"': {}}}, id="a set is emptied"),
        pytest.param(
            {"tags": ["a", "a"]},
            {"tags": ["a"]},
            {"f:tags": {'v:"a"': {}}},
            {"f:tags": {'v:"a"': {}}},
            id="a duplicate goes",
        ),
        pytest.param(
            {"tags": ["a"]},
            {"tags": ["a", "a"]},
            {"f:tags": {'v:"a"': {}}},
            {"f:tags": {'v:"a"': {}}},
            id="a duplicate comes",
        ),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}, {"name": "n"}]},
            {"rooms": [{"name": "n"}, {"name": "n"}]},
            {"f:rooms": {'k:{"name":"n"}': {}}},
            {},
            id="duplicates change",
        ),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}]},
            {"rooms": [{"name": "n", "area": 2}, {"name": "m"}]},
            {"f:rooms": {'k:{"name":"n"}': {"f:area": {}}, 'k:{"name":"m"}': {".": {}, "f:name": {}}}},
            {},
            id="keyed items",
        ),
        pytest.param(
            {"open": {"a": {"b": 1}}},
            {"open": {"a": "x"}},
            {"f:open": {"f:a": {}}},
            {"f:open": {"f:a": {"f:b": {}}}},
            id="an untyped map becomes a text",
        ),
        pytest.param(
            {"open": {"a": "x"}},
            {"open": {"a": {"b": 1}}},
            {"f:open": {"f:a": {".": {}, "f:b": {}}}},
            {},
            id="an untyped text becomes a map",
        ),
        pytest.param(
            {"other": {"a": 1}, "size": {"b": 1}},
            {},
            {},
            {"f:other": {".": {}, "f:a": {}}, "f:size": {".": {}, "f:b": {}}},
            id="what did not fit goes",
        ),
        pytest.param({"size": {"b": 1}}, {"size": 5}, {"f:size": {}}, {"f:size": {"f:b": {}}}, id="it is mended"),
        pytest.param({"tags": [{}, "a"]}, {"tags": ["a"]}, {"f:tags": {'v:"a"': {}}}, {}, id="items that did not fit"),
        pytest.param({"open": {"a": [1]}}, {"open": {"a": [True]}}, {"f:open": {"f:a": {}}}, {}, id="deep 1 and true"),
        pytest.param(
            {"open": {"a": [1, {"b": [2.0]}]}}, {"open": {"a": [1.0, {"b": [2]}]}}, {}, {}, id="deep equality"
        ),
    ],
)
def test_changes(old: Any, new: Any, changed: FieldSet, removed: FieldSet) -> None:
    found = changes(old, new, spec_type())
    assert (found.changed, found.removed) == (changed, removed)


@pytest.mark.parametrize(
    "old, new",
    [
        pytest.param({}, {"other": 1}, id="unknown"),
        pytest.param({"size": 1}, {"size": "x"}, id="a wrong type"),
        pytest.param({"frame": {}}, {"frame": [1]}, id="a list for a map"),
        pytest.param({"tags": ["a"]}, {"tags": [{"a": 1}]}, id="a bad item"),
    ],
)
def test_untypable(old: Any, new: Any) -> None:
    with pytest.raises(Untypable):
        changes(old, new, spec_type())


def test_deep_values_are_compared_without_recursion() -> None:
    old: Any = 1
    new: Any = 2
    for _ in range(10_000):
        old, new = {"a": old}, {"a": new}
    found = changes({"open": old}, {"open": new}, spec_type())
    assert found.removed == {}
    below = found.changed
    while below:
        below = next(iter(below.values()))
    assert changes({"open": old}, {"open": {"a": old["a"]}}, spec_type()).changed == {}
