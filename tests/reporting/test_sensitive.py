"""Sensitive fields are in no view, whatever the object looks like and however the schema changes."""

from __future__ import annotations

from typing import Any

import pytest

from registry.store.types import WriteOperation
from tests.reporting.reports import Object, Reports, definition

TEXT = {"type": "string"}
PASSWORD = {"type": "string", "format": "password"}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VIEW = "crontabs_example_com"


def of(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


def map_of(values: Object) -> Object:
    return {"type": "object", "additionalProperties": values}


# The schema of the spec, what the definition marks, the spec of an object.
CASES: list[tuple[str, Object, str, Object]] = [
    ("a field", of(token=PASSWORD), "", {"token": "geheim"}),
    ("an array where an object was meant", of(auth=of(password=PASSWORD)), "", {"auth": [{"password": "geheim"}]}),
    ("a text where an object was meant", of(auth=of(password=PASSWORD)), "", {"auth": "geheim"}),
    ("names that need quotes", of(**{"a'b\\": of(**{"\"}]'; --": PASSWORD})}), "", {"a'b\\": {"\"}]'; --": "geheim"}}),
    ("an array far above", of(a=of(b=of(password=PASSWORD))), "", {"a": [[{"b": {"password": "geheim"}}]]}),
    (
        "a map, every key",
        of(users=map_of(of(password=TEXT))),
        ".spec.users.*.password",
        {"users": {"ann": {"password": "geheim"}}},
    ),
    (
        "a map, in brackets",
        of(users=map_of(of(password=TEXT))),
        ".spec.users[*].password",
        {"users": {"ann": {"password": "geheim"}}},
    ),
    (
        "a map, without a word",
        of(users=map_of(of(password=TEXT))),
        ".spec.users.password",
        {"users": {"ann": {"password": "geheim"}}},
    ),
    ("a map in a map", of(users=map_of(map_of(PASSWORD))), "", {"users": {"ann": {"x": "geheim"}}}),
    (
        "a list of lists",
        of(users={"type": "array", "items": {"type": "array", "items": PASSWORD}}),
        "",
        {"users": [["geheim"]]},
    ),
    (
        "an array in free form",
        of(free=FREE),
        ".spec.free.users[].password",
        {"free": {"users": [{"password": "geheim"}]}},
    ),
    (
        "every key in free form",
        of(free=FREE),
        ".spec.free.users.*.password",
        {"free": {"users": {"ann": {"password": "geheim"}}}},
    ),
    (
        "an array of objects",
        of(users={"type": "array", "items": of(password=TEXT, name=TEXT)}),
        ".spec.users[].password",
        {"users": [{"password": "geheim", "name": "ann"}]},
    ),
]


@pytest.mark.parametrize("spec, marks, content", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_no_view_shows_sensitive_fields(reports: Reports, spec: Object, marks: str, content: Object) -> None:
    crd = definition("crontabs", {"spec": spec}, annotations={"reporting.registry/sensitive": marks})
    assert (await reports.define("acme", crd)).state == "ready"
    await reports.put("acme", crd, "a", {"spec": content})
    await reports.put("acme", crd, "a", {"spec": {**content, "other": 1}}, operation=WriteOperation.UPDATE)
    views = reports.ask(
        "acme", f"SELECT viewname AS v FROM pg_views WHERE schemaname = 'reports' AND viewname LIKE '{VIEW}%'"
    )
    assert {VIEW, f"{VIEW}_raw", f"{VIEW}_history"} <= {row["v"] for row in views}
    for row in views:
        assert "geheim" not in str(reports.ask("acme", f'SELECT * FROM "{row["v"]}"')), row
    raw = reports.ask("acme", f"SELECT object FROM {VIEW}_raw")
    assert raw[0]["object"]["spec"]["other"] == 1


async def test_thousands_of_sensitive_fields(reports: Reports) -> None:
    crd = definition("crontabs", {"spec": of(plain=TEXT, **{f"p{n}": PASSWORD for n in range(6_000)})})
    assert (await reports.define("acme", crd)).state == "ready"
    await reports.put("acme", crd, "a", {"spec": {"plain": "x", "p0": "geheim", "p5999": "geheim"}})
    assert reports.ask("acme", f"SELECT object -> 'spec' AS spec FROM {VIEW}_raw") == [{"spec": {"plain": "x"}}]


async def test_other_fields_remain_visible(reports: Reports) -> None:
    crd = definition("crontabs", {"spec": of(auth=of(user=TEXT, password=PASSWORD), plain=TEXT)})
    await reports.define("acme", crd)
    for name, auth in (("a", {"user": "ann", "password": "geheim"}), ("b", None), ("c", {}), ("d", {"user": "x"})):
        await reports.put("acme", crd, name, {"spec": {"plain": "x", "auth": auth}})
    rows = reports.ask("acme", f"SELECT object -> 'spec' AS spec FROM {VIEW}_raw ORDER BY name")
    assert [row["spec"] for row in rows] == [
        {"plain": "x", "auth": {"user": "ann"}},
        {"plain": "x", "auth": None},
        {"plain": "x", "auth": {}},
        {"plain": "x", "auth": {"user": "x"}},
    ]


async def test_removing_a_sensitive_field_does_not_reveal_it(reports: Reports) -> None:
    """The objects of the past have it still; who wants to show it says so by a field that is not marked."""
    crd = definition("crontabs", {"spec": of(user=TEXT, token=PASSWORD)})
    for tenant in ("acme", "beta"):
        await reports.define(tenant, crd)
        await reports.put(tenant, crd, "a", {"spec": {"token": "geheim", "user": "x"}})
    changed = definition("crontabs", {"spec": of(user=TEXT, **{f"f{n}": TEXT for n in range(120)})})
    # An equal definition that never had the field, and a change that is too large for a view of two tenants.
    assert (await reports.define("gamma", changed)).view != VIEW
    moved = (await reports.define("acme", changed)).view
    assert moved not in (VIEW, (await reports.define("gamma", changed)).view)
    for view in (moved, f"{moved}_raw", f"{moved}_history"):
        rows = reports.ask("acme", f'SELECT * FROM "{view}"')
        assert rows
        assert "geheim" not in str(rows), view
    await reports.define("acme", definition("crontabs", {"spec": of(user=TEXT, token=TEXT)}))
    assert "geheim" in str(reports.ask("acme", f'SELECT object FROM "{moved}_raw"'))
