"""Updates: what was wrong before and did not change is accepted (KEP-4008)."""

from typing import Any

import pytest

from registry.schema.compiled import compile_schema

SHORT = {"type": "string", "maxLength": 3}
ANY = {"type": "string"}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": obj(k=ANY, v=SHORT, w=ANY),
}
PLAIN = {"type": "array", "items": SHORT}
SET = {"type": "array", "x-kubernetes-list-type": "set", "items": SHORT}
SCHEMA = compile_schema(
    obj(
        a=SHORT,
        b=ANY,
        o=obj(x=SHORT, y=ANY),
        m={"type": "object", "additionalProperties": SHORT},
        keyed=KEYED,
        plain=PLAIN,
        strict={**obj(x=ANY, y=ANY), "required": ["x"]},
        all={**obj(x=ANY, y=ANY), "allOf": [{"properties": {"x": {"maxLength": 3}}}]},
        keeps={**obj(x=SHORT), "required": ["y"], "x-kubernetes-preserve-unknown-fields": True},
        kind=SHORT,
        set=SET,
        apiVersion=SHORT,
        status=obj(s=SHORT, t=ANY),
    )
)
LONG = "toolong"


def short(path: str) -> str:
    return f"{path}: Too long: may not be more than 3 bytes"


@pytest.mark.parametrize(
    "old, new, errors",
    [
        pytest.param({"a": LONG}, {"a": LONG, "b": "new"}, [], id="unchanged"),
        pytest.param({"a": LONG}, {"a": LONG + "er"}, [short("a")], id="changed"),
        pytest.param({}, {"a": LONG}, [short("a")], id="new"),
        pytest.param({"o": {"x": LONG, "y": "1"}}, {"o": {"x": LONG, "y": "2"}}, [], id="beside a change"),
        pytest.param({"m": {"k": LONG}}, {"m": {"k": LONG, "l": LONG}}, [short("m.l")], id="map values by key"),
        pytest.param({"m": {"k": LONG}}, {"m": {"l": LONG}}, [short("m.l")], id="another key is new"),
        pytest.param(
            {"keyed": [{"k": "1", "v": LONG}]},
            {"keyed": [{"k": "0"}, {"k": "1", "v": LONG, "w": "x"}]},
            [],
            id="items by key",
        ),
        pytest.param(
            {"keyed": [{"k": "1", "v": LONG}, {"k": "2", "v": LONG}]},
            {"keyed": [{"k": "2", "v": LONG}, {"k": "1", "v": LONG}]},
            [],
            id="items may change places",
        ),
        pytest.param(
            {"keyed": [{"k": "1", "v": LONG}]},
            {"keyed": [{"k": "2", "v": LONG}]},
            [short("keyed[0].v")],
            id="another key is another item",
        ),
        pytest.param({"plain": [LONG]}, {"plain": [LONG], "b": "new"}, [], id="an unchanged list"),
        pytest.param({"plain": [LONG]}, {"plain": [LONG, "x"]}, [short("plain[0]")], id="a changed list"),
        pytest.param({"set": [LONG]}, {"set": [LONG, "x"]}, [short("set[0]")], id="a changed set"),
        pytest.param({"strict": {"y": "1"}}, {"strict": {"y": "1"}, "b": "new"}, [], id="required, unchanged"),
        pytest.param(
            {"strict": {"y": "1"}}, {"strict": {"y": "2"}}, ["strict.x: Required value"], id="required, changed"
        ),
        pytest.param(
            {"all": {"x": LONG, "y": "1"}}, {"all": {"x": LONG, "y": "1"}, "b": "new"}, [], id="allOf unchanged"
        ),
        pytest.param(
            {"all": {"x": LONG, "y": "1"}},
            {"all": {"x": LONG, "y": "2"}},
            ['<nil>: Invalid value: "": "all" must validate all the schemas (allOf). None validated', short("all.x")],
            id="what is wrong in allOf is not let pass alone",
        ),
        pytest.param(
            {"keeps": {"x": LONG, "q": 1}},
            {"keeps": {"x": LONG, "q": 1}},
            ["keeps.y: Required value"],
            id="with unknown fields an object never counts as unchanged",
        ),
        pytest.param(
            {"kind": LONG, "apiVersion": LONG},
            {"kind": LONG, "apiVersion": LONG, "b": "new"},
            [short("apiVersion"), short("kind")],
            id="kind and apiVersion are always checked",
        ),
        pytest.param(
            {"a": 1},
            {"a": 1.0},
            ['a: Invalid value: "number": a in body must be of type string: "number"'],
            id="another type is a change",
        ),
    ],
)
def test_updates(old: dict[str, Any], new: dict[str, Any], errors: list[str]) -> None:
    assert sorted(error.message() for error in SCHEMA.validate_update(new, old)) == errors
    # A patch leaves unchanged parts as they are.
    assert sorted(error.message() for error in SCHEMA.validate_update(sharing(new, old), old)) == errors


def sharing(new: Any, old: Any) -> Any:
    """`new` with the very parts of `old` that are equal."""
    if repr(new) == repr(old):
        return old
    if isinstance(new, dict) and isinstance(old, dict):
        return {name: sharing(part, old.get(name)) for name, part in new.items()}
    return new


def test_what_a_patch_leaves_is_not_checked_again() -> None:
    number = {"type": "integer"}
    schema = compile_schema(obj(a=number, o=obj(x=number, list={"type": "array", "items": number})))
    old: dict[str, Any] = {"a": 1, "o": {"x": 1, "list": Untouchable([1])}}
    assert not schema.validate_update({"a": 1, "o": {**old["o"], "x": 2}}, old)
    with pytest.raises(AssertionError, match="touched"):
        schema.validate_update({"a": 1, "o": {"x": 2, "list": Untouchable([1])}}, old)


class Untouchable(list[Any]):
    __class__ = list  # type: ignore[assignment]  # as checks see it

    def __iter__(self) -> Any:
        raise AssertionError("touched")


@pytest.mark.parametrize(
    ("item", "error"),
    [
        pytest.param(None, "keyed[0]: Invalid value", id="an item that is no object has no key"),
        pytest.param({"v": LONG}, "keyed[0].v: Too long", id="nor has one without"),
    ],
)
def test_items_without_a_key_never_count_as_unchanged(item: Any, error: str) -> None:
    old = {"keyed": [item, {"k": "1"}]}
    expected = [problem.message() for problem in SCHEMA.validate_update({"keyed": [item, {"k": "1"}], "b": "new"}, old)]
    assert [problem.message() for problem in SCHEMA.validate_update({**old, "b": "new"}, old)] == expected
    assert expected == [] or expected[0].startswith(error)


@pytest.mark.parametrize(
    "old, new, errors",
    [
        pytest.param({"set": ["a", "a"]}, {"set": ["b", "b"]}, [], id="the old object had a double"),
        pytest.param({"set": ["a"]}, {"set": ["b", "b"]}, ['set[1]: Duplicate value: "b"'], id="it had none"),
        pytest.param({"keyed": [{"k": "1"}, {"k": "1"}]}, {"set": ["b", "b"]}, [], id="it had one elsewhere"),
    ],
)
def test_list_types(old: dict[str, Any], new: dict[str, Any], errors: list[str]) -> None:
    assert [error.message() for error in SCHEMA.validate_update(new, old)] == errors


@pytest.mark.parametrize(
    "old, new, errors",
    [
        pytest.param({"status": {"s": LONG}}, {"status": {"s": LONG, "t": "x"}}, [], id="unchanged"),
        pytest.param({}, {"status": {"s": LONG}}, [short("status.s")], id="new"),
        pytest.param(
            {"status": {}},
            {"status": {"s": 1}},
            ['status.s: Invalid value: "integer": s in body must be of type string: "integer"'],
            id="text",
        ),
        pytest.param({}, {"a": LONG}, [], id="only the status is looked at"),
    ],
)
def test_status_updates(old: dict[str, Any], new: dict[str, Any], errors: list[str]) -> None:
    assert [error.message() for error in SCHEMA.validate_status_update(new, old)] == errors
