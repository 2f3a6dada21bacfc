"""What a value owns when it is applied, what it adds when it is written, how old entries read."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.fieldsets import FieldSet
from registry.apply.owned import (
    BadItem,
    Untypable,
    declared_members,
    field_set,
    fields_within,
    item_element,
    reconcile_fields,
    with_named,
)
from tests.apply.schemas import SCHEMA, TEXT, spec_type, type_of


@pytest.mark.parametrize(
    "spec, expected",
    [
        pytest.param({"color": "red", "size": None}, {"f:color": {}, "f:size": {}}, id="scalars"),
        pytest.param({"frame": {"width": 1}}, {"f:frame": {"f:width": {}}}, id="a declared parent is not owned"),
        pytest.param({"frame": {}}, {"f:frame": {}}, id="an empty map is"),
        pytest.param({"frame": None}, {"f:frame": {}}, id="a null map is"),
        pytest.param({"stamp": {"ink": "x"}}, {"f:stamp": {}}, id="an atomic map"),
        pytest.param({"limits": {"a/b": "1"}}, {"f:limits": {"f:a/b": {}}}, id="keys of a map"),
        pytest.param({"boxes": {"x": {"a": "1"}}}, {"f:boxes": {"f:x": {".": {}, "f:a": {}}}}, id="objects in a map"),
        pytest.param({"steps": []}, {"f:steps": {}}, id="an empty atomic list is owned"),
        pytest.param({"tags": [], "rooms": []}, {}, id="an empty set or keyed list is not"),
        pytest.param({"tags": ["x", "<"]}, {"f:tags": {'v:"x"': {}, 'v:"\\u003c"': {}}}, id="items of a set"),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}]},
            {"f:rooms": {'k:{"name":"n"}': {".": {}, "f:name": {}, "f:area": {}}}},
            id="keyed items",
        ),
        pytest.param(
            {"ports": [{"port": 80}]},
            {"f:ports": {'k:{"port":80,"proto":"tcp"}': {".": {}, "f:port": {}}}},
            id="a defaulted key is filled in, not owned",
        ),
        pytest.param(
            {"ports": [{"port": 80.0, "proto": "u"}]},
            {"f:ports": {'k:{"port":80,"proto":"u"}': {".": {}, "f:port": {}, "f:proto": {}}}},
            id="80.0 is 80",
        ),
        pytest.param(
            {"free": {"known": "x", "m": {"n": 1}, "l": [1], "e": {}}},
            {"f:free": {"f:known": {}, "f:m": {".": {}, "f:n": {}}, "f:l": {}, "f:e": {}}},
            id="preserved members",
        ),
        pytest.param(
            {"template": {"apiVersion": "v1", "kind": "K", "metadata": {"finalizers": ["f"]}}},
            {"f:template": {"f:apiVersion": {}, "f:kind": {}, "f:metadata": {"f:finalizers": {'v:"f"': {}}}}},
            id="an embedded object",
        ),
    ],
)
def test_applied(spec: Any, expected: FieldSet) -> None:
    assert field_set(spec, spec_type()) == expected


@pytest.mark.parametrize(
    "spec, expected",
    [
        pytest.param({"color": "red", "size": None}, {"f:color": {}, "f:size": {}}, id="scalars"),
        pytest.param({"frame": {"width": 1}}, {"f:frame": {".": {}, "f:width": {}}}, id="a parent is added"),
        pytest.param(
            {"frame": {}, "tags": [], "rooms": []}, {"f:frame": {}, "f:tags": {}, "f:rooms": {}}, id="empty ones"
        ),
        pytest.param({"tags": ["x"]}, {"f:tags": {".": {}, 'v:"x"': {}}}, id="a set"),
        pytest.param({"tags": ["x", "x"]}, {"f:tags": {".": {}, 'v:"x"': {}}}, id="a duplicate in a set"),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}]},
            {"f:rooms": {".": {}, 'k:{"name":"n"}': {".": {}, "f:name": {}, "f:area": {}}}},
            id="a keyed list",
        ),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}, {"name": "n"}]},
            {"f:rooms": {".": {}, 'k:{"name":"n"}': {}}},
            id="a duplicate key is owned whole",
        ),
        pytest.param(
            {"port": 5, "when": "x", "open": {"a": {"b": [1]}}},
            {"f:port": {}, "f:when": {}, "f:open": {".": {}, "f:a": {".": {}, "f:b": {}}}},
            id="untyped",
        ),
    ],
)
def test_added(spec: Any, expected: FieldSet) -> None:
    assert fields_within(spec, spec_type()) == expected


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"other": 1}, id="unknown"),
        pytest.param({"size": "x"}, id="a text for a number"),
        pytest.param({"flag": 1}, id="a number for a boolean"),
        pytest.param({"size": True}, id="a boolean for a number"),
        pytest.param({"color": {}}, id="a map for a text"),
        pytest.param({"frame": []}, id="a list for a map"),
        pytest.param({"tags": {"a": 1}}, id="a map for a list"),
        pytest.param({"tags": [{}]}, id="a map in a set"),
        pytest.param({"rooms": [{"area": 1}]}, id="no key"),
    ],
)
def test_untypable(spec: Any) -> None:
    with pytest.raises(Untypable):
        fields_within(spec, spec_type())


@pytest.mark.parametrize(
    "field, item, message",
    [
        pytest.param("rooms", None, "associative list with keys may not have a null element", id="null with keys"),
        pytest.param("rooms", "x", "associative list with keys may not have non-map elements", id="text with keys"),
        pytest.param(
            "rooms",
            {},
            'associative list with keys has an element that omits all key fields ["name"] (and '
            "doesn't have default values for any key fields)",
            id="no key",
        ),
        pytest.param(
            "tags", None, "associative list without keys has an element that's an explicit null", id="null in a set"
        ),
        pytest.param(
            "rooms",
            {"name": {"a": 1}},
            "associative list with keys has an element whose key is not a scalar",
            id="a document for a key",
        ),
        pytest.param("tags", {}, "associative list without keys has an element that's a map type", id="map in a set"),
        pytest.param("tags", [], "not supported: associative list with lists as elements", id="list in a set"),
    ],
)
def test_items_that_cannot_be_distinguished(field: str, item: Any, message: str) -> None:
    with pytest.raises(BadItem) as caught:
        item_element(item, spec_type().fields[field][1])
    assert str(caught.value) == message


def test_owners_of_fields_own_their_declared_parents() -> None:
    fields: FieldSet = {
        "f:frame": {"f:width": {}},
        "f:limits": {"f:a": {}},
        "f:boxes": {"f:x": {"f:a": {}}},
        "f:rooms": {'k:{"name":"n"}': {"f:area": {}}},
    }
    assert with_named(fields, spec_type()) == {
        "f:frame": {".": {}, "f:width": {}},
        "f:limits": {".": {}, "f:a": {}},
        "f:boxes": {".": {}, "f:x": {"f:a": {}}},
        "f:rooms": {".": {}, 'k:{"name":"n"}': {"f:area": {}}},
    }


@pytest.mark.parametrize(
    "fields, expected",
    [
        pytest.param({"f:stamp": {"f:ink": {}}}, {"f:stamp": {}}, id="a map that became atomic"),
        pytest.param({"f:steps": {".": {}, 'v:"x"': {}}}, {"f:steps": {}}, id="a list that became atomic"),
        pytest.param({"f:tags": {}, "f:rooms": {}}, None, id="what became granular stays"),
        pytest.param({"f:gone": {"f:x": {}}}, None, id="what the schema does not know stays"),
        pytest.param({"f:free": {"f:l": {'v:"x"': {}}}}, None, id="untyped stays"),
    ],
)
def test_old_entries(fields: FieldSet, expected: FieldSet | None) -> None:
    found = reconcile_fields(fields, spec_type())
    assert found == (fields if expected is None else expected)
    if expected is None:
        assert found is fields


def test_old_entries_below_items_and_maps() -> None:
    atomic = {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"x": TEXT}}
    node = type_of(
        {
            "type": "object",
            "properties": {
                "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": atomic}}},
                "l": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["n"],
                    "items": {"type": "object", "properties": {"n": TEXT, "a": atomic}},
                },
            },
        }
    )
    fields: FieldSet = {
        "f:m": {"f:k": {"f:a": {"f:x": {}}}},
        "f:l": {".": {}, 'k:{"n":"1"}': {".": {}, "f:a": {"f:x": {}}}},
    }
    assert reconcile_fields(fields, node) == {
        "f:m": {"f:k": {"f:a": {}}},
        "f:l": {".": {}, 'k:{"n":"1"}': {".": {}, "f:a": {}}},
    }


def test_declared_keeps_paths_of_the_schema() -> None:
    value = {"spec": {"color": "x", "no": 1, "rooms": [{"name": "n", "no": 2}], "free": {"any": 1}}}
    assert declared_members(value, type_of()) == {"spec": {"color": "x", "rooms": [{"name": "n"}], "free": {"any": 1}}}
    known = {"spec": {"color": "x", "rooms": [{"name": "n"}]}}
    assert declared_members(known, type_of(SCHEMA)) is known
