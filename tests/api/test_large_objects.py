"""Objects of a megabyte are decoded and encoded beside the event loop, whatever reads or writes them."""

from __future__ import annotations

import sys
import threading
import traceback
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from registry.codec import json_decode, json_encode, json_pieces
from tests.api.client import APPLY, Client, eventually
from tests.api.widgets import DEFINITIONS, define, definition
from tests.application import shares_application

pytestmark = shares_application

LARGE_BYTES = 500_000


class Watched:
    """Notes what is decoded and encoded on the event loop, and how often that happens beside it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_loop: list[str] = []
        self.beside = 0
        watched = SimpleNamespace(**{**vars(orjson), "loads": self._loads, "dumps": self._dumps})
        for module in (json_pieces, json_decode, json_encode):
            monkeypatch.setattr(module, "orjson", watched)
        self.watch(monkeypatch, "registry.codec.json_pieces.divide")

    def _note(self, what: str, size: int) -> None:
        if size < LARGE_BYTES:
            return
        if threading.current_thread() is threading.main_thread():
            callers = traceback.extract_stack()[-3:-12:-1]
            self.on_loop.append(f"{what} {' < '.join(f'{frame.name}:{frame.lineno}' for frame in callers)}")
        else:
            self.beside += 1

    def watch(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        """Notes the calls of a function, by the length of its first argument."""
        module, _, attribute = name.rpartition(".")
        function = getattr(sys.modules[module], attribute)

        def noted(value: Any, *more: Any) -> Any:
            self._note(attribute, len(str(value)))
            return function(value, *more)

        monkeypatch.setattr(name, noted)

    def _loads(self, text: Any) -> Any:
        self._note("decoded", len(text))
        return orjson.loads(text)

    def _dumps(self, value: Any, *more: Any, **options: Any) -> bytes:
        data = orjson.dumps(value, *more, **options)
        self._note("encoded", len(data))
        return data


async def test_a_large_definition_never_holds_the_loop(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its catalog, and the controller that establishes it, decoded it on the loop: 20 ms each time."""
    watched = Watched(monkeypatch)
    one = definition("larges", "Large", group="large.example.com")
    properties = {f"p{i}": {"type": "string", "description": "x" * 100} for i in range(8000)}
    schema = one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"] = {**schema.get("properties", {}), "more": {"type": "object", "properties": properties}}
    await define(api, one)
    path = f"{DEFINITIONS}/larges.large.example.com"
    (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).ok()
    (await api.patch(path, {"metadata": {"annotations": {"reporting.registry/columns": ""}}})).ok()
    status = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "larges.large.example.com", "labels": {"c": "d"}},
    }
    (await api.patch(f"{path}?fieldManager=m&force=true", status, APPLY)).ok()
    for query in (
        "",
        "?resourceVersion=0",
        "?labelSelector=a=b",
        "?fieldSelector=metadata.name=larges.large.example.com",
    ):
        assert (await api.get(f"{DEFINITIONS}{query}")).code == 200
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    (await api.get(DEFINITIONS, accept=table)).ok()
    (await api.get(path, accept=table)).ok()
    assert (await api.get(path, accept="application/yaml")).code == 200
    (await api.get("/openapi/v2")).ok()
    (await api.get("/openapi/v3/apis/large.example.com/v1")).ok()
    objects = "/apis/large.example.com/v1/namespaces/default/larges"
    (await api.post(objects, {"apiVersion": "large.example.com/v1", "kind": "Large", "metadata": {"name": "a"}})).ok(
        201
    )
    (await api.get("/apis/large.example.com/v1/larges")).ok()
    (await api.delete(path)).ok()

    async def is_gone() -> bool:
        return (await api.get(path)).code == 404

    await eventually(is_gone)  # as the controller that deletes its objects decodes it, too
    assert watched.beside
    assert not watched.on_loop


async def test_a_large_object_never_holds_the_loop(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await define(
        api,
        definition(
            "bigs",
            "Big",
            group="big.example.com",
            schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ),
    )
    watched = Watched(monkeypatch)
    path = "/apis/big.example.com/v1/namespaces/default/bigs"
    big = {
        "apiVersion": "big.example.com/v1",
        "kind": "Big",
        "metadata": {"name": "a", "labels": {"a": "b"}},
        "spec": {f"p{i}": ["x" * 50] for i in range(12_000)},
    }
    (await api.post(path, big)).ok(201)
    (await api.patch(f"{path}/a", {"metadata": {"labels": {"a": "b", "c": "d"}}})).ok()
    small = {"apiVersion": "big.example.com/v1", "kind": "Big", "metadata": {"name": "a", "labels": {"e": "f"}}}
    (await api.patch(f"{path}/a?fieldManager=m&force=true", small, APPLY)).ok()
    stored_one = (await api.get(f"{path}/a")).ok()
    (await api.put(f"{path}/a", stored_one)).ok()
    for query in ("", "?resourceVersion=0", "?labelSelector=a=b", "?fieldSelector=metadata.name=a", "?limit=1"):
        assert (await api.get(f"{path}{query}")).code == 200
    for accept in (
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/yaml",
    ):
        assert (await api.get(path, accept=accept)).code == 200
    for name in (
        "registry.api.request.with_sorted_keys",
        "registry.api.verbs.history.changes.json_diff",
        "registry.api.verbs.history.changes.merge_diff",
        "registry.api.verbs.history.restore.deep_copy",
    ):
        watched.watch(monkeypatch, name)
    (await api.patch(f"{path}/a?dryRun=All", {"spec": {"p1": ["y"]}})).ok()
    (await api.put(f"{path}/a?dryRun=All", stored_one)).ok()
    (await api.post(f"{path}?dryRun=All", {**big, "metadata": {"name": "b"}})).ok(201)
    for query in ("", "?diff=json", "?object=true", "?diff=none"):
        assert (await api.get(f"{path}/a/history{query}")).code == 200
    assert (await api.get(f"{path}/a/history?object=true", accept="application/yaml")).code == 200
    restored = {"resourceVersion": stored_one["metadata"]["resourceVersion"]}
    (await api.post(f"{path}/a/restore?dryRun=All", restored)).ok()
    (await api.post(f"{path}/a/restore", restored)).ok()
    (await api.delete(f"{path}/a")).ok()
    for query in ("", "&labelSelector=a=b", "&filter=object.metadata.name=='a'", "&orderBy=metadata.name"):
        assert len((await api.get(f"{path}?deleted=true{query}")).ok()["items"]) == 1
    (await api.post(f"{path}/a/undelete?dryRun=All", {})).ok(201)
    (await api.post(f"{path}/a/undelete", {})).ok(201)
    assert watched.beside
    assert not watched.on_loop


async def test_pages_of_large_deleted_objects_are_short(api: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for name in "abcdef":
        large = {"metadata": {"name": name, "labels": {"x": "y"}}, "data": {"text": "x" * 1_000_000}}
        (await api.post(path, large)).ok(201)
        (await api.delete(f"{path}/{name}")).ok()
    found, token, pages = [], "", 0
    while token or not pages:
        answer = (await api.get(f"{path}?deleted=true&labelSelector=x=y&limit=500&continue={token}")).ok()
        found += [item["object"]["metadata"]["name"] for item in answer["items"]]
        token, pages = answer["metadata"].get("continue", ""), pages + 1
    assert found == [*"abcdef"]
    assert pages > 1
