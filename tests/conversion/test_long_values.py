"""Rules by which a short object would become one of gigabytes."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.served import body_of
from registry.conversion.errors import ConversionError
from tests.conversion.plans import INT, TEXT, link, list_of, obj, plan, thing

LONG = "x" * 60_000
ITEM = obj(a=TEXT, b=TEXT)
OLD = obj(items=list_of(ITEM), text=TEXT, texts=list_of(TEXT))
NEW = obj(
    items=list_of(obj(a=TEXT, b=TEXT, **{"n" * 900: TEXT})),
    text=TEXT,
    texts=list_of(TEXT),
    any={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    **{f"t{i}": TEXT for i in range(100)},
    deep={"x-kubernetes-preserve-unknown-fields": True, "type": "array", "items": {"type": "array", "items": INT}},
)


def doubled(value: str, times: int) -> str:
    return f"[{value}]" + "".join(f".map(v{i}, [v{i}, v{i}])" for i in range(times))


@pytest.mark.parametrize(
    "rules, spec",
    [
        pytest.param([{"default": {"path": "spec.items[*].a", "value": LONG}}], {"items": [{}] * 10_000}, id="default"),
        pytest.param(
            [
                {"default": {"path": "spec.items", "value": [{}] * 10_000}},
                {"default": {"path": "spec.items[*].a", "value": LONG}},
            ],
            {},
            id="default in defaults",
        ),
        pytest.param(
            [{"set": {"path": "spec.items[*].a", "cel": "'" + "x" * 3_900 + "'"}}],
            {"items": [{}] * 10_000},
            id="expression for each element",
        ),
        pytest.param(
            [{"set": {"path": f"spec.t{i}", "cel": "self.spec.text"}} for i in range(100)],
            {"text": "x" * 1_000_000},
            id="expression for each field",
        ),
        pytest.param(
            [{"set": {"path": "spec.any", "cel": "{'a': " + doubled("1", 30) + "}"}}], {}, id="expression that doubles"
        ),
        pytest.param(
            [{"map": {"path": "spec.items[*].b", "values": [{"from": "b", "to": LONG}]}}],
            {"items": [{"b": "b"}] * 10_000},
            id="map",
        ),
        pytest.param(
            [{"rename": {"path": "spec.items[*].b", "to": "n" * 900}}], {"items": [{"b": "b"}] * 20_000}, id="rename"
        ),
    ],
)
def test_objects_that_would_become_too_large_are_not_converted(rules: list[Any], spec: dict[str, Any]) -> None:
    by = plan([link(*rules, loss="Drop", back=[])], v1=OLD, v2=NEW)
    with pytest.raises(
        ConversionError, match=r"failed: .*(more than 8388608 characters|takes more work|costs more than)"
    ):
        by.convert(thing("v1", spec), "g/v2")
    stored = body_of(thing("v1", spec, uid="u-1"))
    assert by.bodies("Thing", "v1", "v2")("a", "u-1", stored) is None


def test_the_way_back_is_bounded_too() -> None:
    rules = {"default": {"path": "spec.tier", "value": "basic"}}
    back = {"map": {"path": "spec.texts[*]", "values": [{"from": "a", "to": LONG}]}}
    by = plan([link(rules, loss="Keep", back=[back])], v1=OLD, v2=obj(tier=TEXT, texts=list_of(TEXT)))
    with pytest.raises(ConversionError, match="more than 8388608 characters"):
        by.convert(thing("v1", {"texts": ["a"] * 10_000}), "g/v2")


def test_large_objects_are_converted() -> None:
    by = plan([link({"rename": {"path": "spec.items[*].a", "to": "b"}}, loss="Drop")], v1=OLD, v2=NEW)
    spec = {"items": [{"a": "x" * 100}] * 20_000}
    assert by.convert(thing("v1", spec), "g/v2")["spec"] == {"items": [{"b": "x" * 100}] * 20_000}
    body = by.bodies("Thing", "v1", "v2")("a", "u-1", body_of(thing("v1", spec, uid="u-1")))
    assert body == body_of(thing("v2", {"items": [{"b": "x" * 100}] * 20_000}, uid="u-1"))
