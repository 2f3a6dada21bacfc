"""Properties may be called anything: words of CEL and Python, escapes, texts that no identifier can be, nothing.

kube-apiserver takes any text for the name of a property; a rule can reach those that escape to an identifier.
"""

from __future__ import annotations

import json
import keyword
import re
from typing import Any

from registry.cel.common.escaping import RESERVED, escape
from tests.api.client import APPLY, TABLE, Client
from tests.api.errors import failure
from tests.api.widgets import GROUP, define, definition
from tests.application import shares_application

pytestmark = shares_application

ODDS = f"/apis/{GROUP}/v1/namespaces/default/odds"

NAMES = sorted(
    {
        *RESERVED,
        *keyword.kwlist,
        *keyword.softkwlist,
        "self",
        "oldSelf",
        "cls",
        "members",
        "kwargs",
        "node",
        "schema",
        "name",
        "value",
        "has",
        "all",
        "exists",
        "map",
        "int",
        "string",
        "type",
        "size",
        "dyn",
        "items",
        "properties",
        "default",
        "constructor",
        "toString",
        "__namespace__",
        "__class__",
        "__dict__",
        "__init__",
        "__proto__",
        "__dot__",
        "__underscores__",
        "a__b",
        "__",
        "_",
        "a.b",
        ".",
        "..",
        "a-b",
        "-",
        "a/b",
        "/",
        "~1",
        "~0",
        "a~b",
        "*",
        "$ref",
        "$",
        "%s",
        "%(a)s",
        "{0}",
        "{a.b}",
        "f:a",
        "k:{}",
        "v:1",
        "i:0",
        "",
        " ",
        "a b",
        "\t",
        "line\nbreak",
        '"',
        "'",
        "\\",
        "0",
        "1st",
        "-1",
        "null",
        "true",
        "\u00fc",
        "\u4f60\u597d",
        "\U0001f600",
        "\u200b",
        "\ufeff",
        "\x7f",
        "a" * 300,
    }
)


async def _define(api: Client, properties: dict[str, Any]) -> None:
    spec = {"type": "object", "properties": properties}
    await define(api, definition("odds", "Odd", schema={"type": "object", "properties": {"spec": spec}}))


def _properties() -> dict[str, Any]:
    named = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in NAMES},
        "x-kubernetes-validations": [
            {"rule": f"!has(self.{known}) || self.{known} != 'forbidden'"}
            for name in NAMES[::4]
            if (known := escape(name))
        ],
    }
    lists = {"type": "array", "items": named, "maxItems": 3}
    return {"map": named, "list": lists}


def _odd(name: str, spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Odd", "metadata": {"name": name}, "spec": spec}


def _applied(name: str, spec: Any) -> bytes:
    """The body of an apply: YAML takes control characters only escaped."""
    text = json.dumps(_odd(name, spec), ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


async def test_objects_with_properties_of_any_name(api: Client) -> None:
    await _define(api, _properties())
    every = {name: f"value of {name}" for name in NAMES}
    spec = {"map": every, "list": [every]}
    assert (await api.post(ODDS, _odd("a", spec))).ok(201)["spec"] == spec
    assert (await api.get(f"{ODDS}/a")).ok()["spec"] == spec
    changed = dict.fromkeys(NAMES, "changed")
    assert (await api.patch(f"{ODDS}/a", {"spec": {"map": changed}})).ok()["spec"]["map"] == changed
    applied = await api.patch(f"{ODDS}/b?fieldManager=m", _applied("b", spec), APPLY)
    assert applied.ok(201)["spec"] == spec
    fewer = dict.fromkeys(NAMES[::2], "changed")
    applied = await api.patch(f"{ODDS}/b?fieldManager=m", _applied("b", {"map": fewer}), APPLY)
    assert applied.ok(200)["spec"] == {"map": fewer}
    for path, accept in (
        (ODDS, TABLE),
        (ODDS, "application/yaml"),
        (f"/openapi/v3/apis/{GROUP}/v1", ""),
        ("/openapi/v2", ""),
        (f"{ODDS}/a/history?diff=json", ""),
    ):
        assert (await api.get(path, accept=accept)).code == 200


async def test_rules_access_escaped_property_names(api: Client) -> None:
    reachable = {f"p{i}": name for i, name in enumerate(NAMES) if escape(name)}
    await _define(
        api,
        {
            number: {
                "type": "object",
                "required": [name],
                "properties": {name: {"type": "string", "maxLength": 10}},
                "x-kubernetes-validations": [{"rule": f"self.{escape(name)} == 'a'"}],
            }
            for number, name in reachable.items()
        },
    )
    (await api.post(ODDS, _odd("a", {number: {name: "a"} for number, name in reachable.items()}))).ok(201)
    answer = await api.post(ODDS, _odd("b", {number: {name: "b"} for number, name in reachable.items()}))
    fields = {cause["field"] for cause in failure(answer, 422, "Invalid")["details"]["causes"]}
    assert fields == {f"spec.{number}" for number in reachable}


async def test_lists_keyed_by_a_property_of_any_name(api: Client) -> None:
    await _define(
        api,
        {
            f"p{i}": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": [name],
                "items": {
                    "type": "object",
                    "required": [name],
                    "properties": {name: {"type": "string"}, f"{name}x": {"type": "string", "default": "d"}},
                },
            }
            for i, name in enumerate(NAMES)
        },
    )
    spec = {f"p{i}": [{name: "a"}] for i, name in enumerate(NAMES)}
    wanted = {f"p{i}": [{name: "a", f"{name}x": "d"}] for i, name in enumerate(NAMES)}
    made = (await api.patch(f"{ODDS}/a?fieldManager=m", _applied("a", spec), APPLY)).ok(201)
    assert made["spec"] == wanted
    more = {f"p{i}": [{name: "b"}] for i, name in enumerate(NAMES)}
    found = (await api.patch(f"{ODDS}/a?fieldManager=n", _applied("a", more), APPLY)).ok(200)
    assert found["spec"] == {
        place: [*items, {**items[0], NAMES[int(place[1:])]: "b"}] for place, items in wanted.items()
    }
