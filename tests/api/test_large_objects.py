"""Objects of a megabyte are decoded and encoded beside the event loop, whatever reads or writes them."""

from __future__ import annotations

import threading
import traceback
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from registry.codec import json_decode, json_encode, stored
from tests.api.client import APPLY, Client
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
        for module in (stored, json_decode, json_encode):
            monkeypatch.setattr(module, "orjson", watched)

    def _note(self, what: str, size: int) -> None:
        if size < LARGE_BYTES:
            return
        if threading.current_thread() is threading.main_thread():
            callers = traceback.extract_stack()[-3:-12:-1]
            self.on_loop.append(f"{what} {' < '.join(f'{frame.name}:{frame.lineno}' for frame in callers)}")
        else:
            self.beside += 1

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
    (await api.delete(f"{path}/a")).ok()
    assert watched.beside
    assert not watched.on_loop
