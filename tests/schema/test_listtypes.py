"""Sets without doubles, maps without double keys."""

from typing import Any

import pytest

from registry.schema.listtypes import ListTypes
from registry.schema.model import from_json

ANY = {"x-kubernetes-preserve-unknown-fields": True}
SET = {"type": "array", "x-kubernetes-list-type": "set", "items": ANY}
MAP = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": ANY}
MAP2 = {**MAP, "x-kubernetes-list-map-keys": ["k", "l"]}

CASES = [
    pytest.param(SET, ["a", "b"], [], id="set"),
    pytest.param(SET, ["a", "b", "a"], ['s[2]: Duplicate value: "a"'], id="double"),
    pytest.param(SET, ["a", "a", "a"], ['s[1]: Duplicate value: "a"'], id="thrice is reported once"),
    pytest.param(SET, ["a", "b", "b", "a"], ['s[2]: Duplicate value: "b"', 's[3]: Duplicate value: "a"'], id="two"),
    pytest.param(SET, [1, 1.0, True, 0, False, None], [], id="types count"),
    pytest.param(SET, [None, None], ["s[1]: Duplicate value: null"], id="null"),
    pytest.param(SET, [{"a": 1}, {"a": 1.0}], ['s[1]: Duplicate value: {"a":1}'], id="but not inside of objects"),
    pytest.param(SET, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ['s[1]: Duplicate value: {"a":1,"b":2}'], id="objects"),
    pytest.param(SET, [[1], [1], "[1]"], ["s[1]: Duplicate value: [1]"], id="a list is not its text"),
    pytest.param(MAP, [{"k": "a"}, {"k": "b"}], [], id="map"),
    pytest.param(MAP, [{"k": "a", "v": 1}, {"k": "a"}], ['s[1]: Duplicate value: {"k":"a"}'], id="double key"),
    pytest.param(MAP, [{}, {"v": 1}, None], ["s[1]: Duplicate value: {}"], id="missing keys"),
    pytest.param(MAP, [{"k": 1}, {"k": 1.0}, {"k": True}], [], id="key types count"),
    pytest.param(MAP, [{"k": None}, {}], [], id="a null key is there"),
    pytest.param(MAP, [{"k": {"a": 1}}, {"k": {"a": 1}}], ['s[1]: Duplicate value: {"k":{"a":1}}'], id="object keys"),
    pytest.param(
        MAP,
        [{"k": "a"}, "x", 3],
        ['s[1]: Invalid value: "x": must be an object for an array of list-type map'],
        id="no object",
    ),
    pytest.param(
        MAP,
        ["x"],
        ['s[0]: Invalid value: "x": must be an object for an array of list-type map'],
        id="alone and no object",
    ),
    pytest.param(MAP2, [{"k": 1, "l": 2}, {"k": 1, "l": 3}, {"k": 1}], [], id="two keys"),
    pytest.param(MAP2, [{"k": 1, "l": 2}, {"l": 2, "k": 1}], ['s[1]: Duplicate value: {"k":1,"l":2}'], id="both equal"),
    pytest.param(MAP2, [{"k": 1}, {"k": 1.0}], ['s[1]: Duplicate value: {"k":1}'], id="several are compared as JSON"),
    pytest.param(MAP2, [{}, None], ["s[1]: Duplicate value: {}"], id="both missing"),
    pytest.param({"type": "array", "items": SET}, [["a"], ["b", "b"]], ['s[1][1]: Duplicate value: "b"'], id="nested"),
    pytest.param(
        {"type": "object", "additionalProperties": SET},
        {"x y": ["b", "b"]},
        ['s[x y][1]: Duplicate value: "b"'],
        id="in a map value",
    ),
    pytest.param(
        {"type": "object", "properties": {"p": MAP}},
        {"p": [{"k": 1}, {"k": 1}]},
        ['s.p[1]: Duplicate value: {"k":1}'],
        id="in a property",
    ),
    pytest.param(SET, {"a": 1}, [], id="an object is validation's affair"),
    pytest.param({"type": "array", "items": ANY}, ["a", "a"], [], id="atomic lists may have doubles"),
]


@pytest.mark.parametrize("field, value, errors", CASES)
def test_list_types(field: dict[str, Any], value: Any, errors: list[str]) -> None:
    checks = ListTypes(from_json({"type": "object", "properties": {"s": field}}))
    assert [error.message() for error in checks.validate({"s": value})] == errors
    assert checks.is_valid({"s": value}) is (not errors)
