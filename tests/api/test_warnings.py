"""Warning headers of successful writes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, define, definition, make, widget
from tests.application import shares_application

pytestmark = shares_application


async def test_warns_of_unknown_fields(api: Client) -> None:
    answer = await api.post(WIDGETS, widget("a", bogus=1, size=2))
    answer.ok(201)
    assert answer.warnings == ['unknown field "spec.bogus"']
    assert answer.headers["warning"] == ['299 - "unknown field \\"spec.bogus\\""']


@pytest.mark.parametrize(
    ("body", "custom", "builtin"),
    [
        ('"\\\\pN":1', r'unknown field "\pN"', r'unknown field "\\pN"'),
        ('"a\\"b":1', 'unknown field "a"b"', r'unknown field "a\"b"'),
        ('"data":{"\\\\":"1","\\\\":"2"}', r'duplicate field "data.\\"', r'duplicate field "data.\\"'),
    ],
)
async def test_fields_of_built_in_kinds_are_quoted(api: Client, body: str, custom: str, builtin: str) -> None:
    """As are repeated ones of any kind; unknown ones of a custom resource are put between quotes as they are."""
    widgets = f'{{"apiVersion":"{GROUP}/v1","kind":"Widget","metadata":{{"name":"a"}},{body}}}'
    answer = await api.post(f"{WIDGETS}?dryRun=All&fieldValidation=Strict", widgets)
    assert custom in answer.json["message"]
    maps = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},{body}}}'
    path = "/api/v1/namespaces/default/configmaps"
    answer = await api.post(f"{path}?dryRun=All&fieldValidation=Strict", maps)
    assert builtin in answer.json["message"]
    (await api.post(path, {"metadata": {"name": "a"}})).ok(201)
    answer = await api.patch(f"{path}/a?fieldValidation=Strict", f"{{{body}}}")
    assert builtin in answer.json["message"]


async def test_a_refused_write_returns_its_own_warnings(api: Client) -> None:
    answer = await api.post(f"{WIDGETS}?fieldValidation=Strict", widget("a", bogus=1))
    assert answer.code == 400
    assert answer.warnings == []


async def test_every_answer_of_a_deprecated_version_warns(api: Client) -> None:
    made = definition("old", "Old", deprecated=True)
    await define(api, made)
    path = f"/apis/{GROUP}/v1/namespaces/default/old"
    for answer in (await api.get(path), await api.get(f"{path}/none"), await api.post(path, "{")):
        assert answer.warnings == [f"{GROUP}/v1 Old is deprecated"]
    # An unknown path belongs to no version: objects are not made outside of a namespace.
    nowhere = await api.post(f"/apis/{GROUP}/v1/old", {})
    assert (nowhere.code, nowhere.warnings) == (404, [])


async def test_warnings_are_bounded_in_number_and_length(api: Client) -> None:
    spec: dict[str, Any] = {f"field{n}{'x' * 300}": n for n in range(60)}
    answer = await api.post(WIDGETS, widget("a", **spec))
    answer.ok(201)
    assert sum(len(w) for w in answer.warnings) < 4096 + 256
    assert len(answer.warnings) > 10


async def test_field_names_cannot_inject_headers(api: Client) -> None:
    odd: dict[str, Any] = {"x\r\nset-cookie: a": 1, 'y"z\\': 2, "é": 3}
    answer = await api.post(WIDGETS, widget("a", **odd))
    answer.ok(201)
    assert "set-cookie" not in answer.headers
    assert all("\r" not in w and "\n" not in w for w in answer.headers.get("warning", []))


async def test_a_write_that_is_evaluated_again_warns_once(api: Client) -> None:
    """The definition changes under the request's feet."""
    await make(api, "a")
    (await api.patch(f"{DEFINITIONS}/widgets.{GROUP}", {"metadata": {"labels": {"x": "y"}}})).ok()
    answer = await api.patch(f"{WIDGETS}/a", {"spec": {"bogus": 1, "size": 4}})
    answer.ok()
    assert answer.warnings == ['unknown field "spec.bogus"']


@pytest.mark.parametrize("path", [f"{DEFINITIONS}/widgets.{GROUP}", "/api/v1/namespaces/default", f"{WIDGETS}/a"])
@pytest.mark.parametrize("subresource", ["", "/status"])
async def test_owners_that_a_patch_repeats_are_warned_of_whatever_is_patched(
    api: Client, path: str, subresource: str
) -> None:
    await make(api, "a")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "71ac64c5-1ffb-4f79-a8bc-066d0c639222"}
    answer = await api.patch(f"{path}{subresource}?dryRun=All", {"metadata": {"ownerReferences": [owner] * 2}})
    assert answer.ok()["metadata"].get("ownerReferences", [owner]) == [owner]
    [warning] = answer.warnings
    assert warning.startswith(".metadata.ownerReferences contains duplicate entries after mutating admission happens;")
