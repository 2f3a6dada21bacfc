"""OpenAPI v2 of other servers beside what is served here."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from registry.aggregation import openapi_documents
from registry.aggregation.model import APIServer
from registry.aggregation.openapi import ServerDocument, memory_of, merge_v2, own_part
from tests.aggregation.backend import BASE, NEVER, Request, backend, placed, register
from tests.aggregation.servers import server
from tests.api.client import eventually
from tests.application import serving

METRICS = server("metrics.example.com", "v1")


def reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}"}


DEEP: dict[str, Any] = {"paths": {BASE: {}}}
for _ in range(200):
    DEEP = {"paths": {BASE: DEEP}}

DOCUMENT = {
    "paths": {f"{BASE}/metrics": {"get": reference("Metric")}, "/apis/other.example.com/v1/x": {"get": reference("X")}},
    "definitions": {"Metric": {"items": [reference("Part")]}, "Part": {"of": reference("Metric")}, "X": {}},
}


@pytest.mark.parametrize(
    "document, paths, types",
    [
        pytest.param(DOCUMENT, [f"{BASE}/metrics"], ["Metric", "Part"], id="its own paths, and what they use"),
        pytest.param({"paths": {f"{BASE}x/a": {}}}, [], [], id="a longer version"),
        pytest.param({"paths": {BASE: reference("Gone")}}, [BASE], [], id="a type that is missing"),
        pytest.param({"paths": [], "definitions": 7}, [], [], id="no objects"),
        pytest.param([], [], [], id="a list"),
        pytest.param(DEEP, [], [], id="too deep"),
    ],
)
def test_documents_of_a_server_are_validated(document: Any, paths: list[str], types: list[str]) -> None:
    part = own_part(document, METRICS)
    assert (list(part["paths"]), list(part["definitions"])) == (paths, types)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param([[] for _ in range(100_000)], id="lists"),
        pytest.param({f"{i}": {"a": {}} for i in range(50_000)}, id="objects"),
        pytest.param({f"{i}": f"x{i}" * 10 for i in range(50_000)}, id="texts"),
    ],
)
def test_the_memory_of_a_document(document: Any) -> None:
    """Documents were counted by their text: `[[],[]]` takes twenty times as much."""
    text = json.dumps(document)
    gc.collect()
    tracemalloc.start()
    decoded = json.loads(text)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken / 2.5 < memory_of(decoded) < taken * 2.5


def part(of: APIServer, path: str, **types: Any) -> ServerDocument:
    return ServerDocument(of, {"paths": {path: {"get": reference("A")}}, "definitions": types}, 1)


@pytest.mark.parametrize(
    "parts, types, references",
    [
        pytest.param([part(METRICS, "/p", A={"x": 1})], {"A": {"x": 1}}, ["A"], id="the same type is shared"),
        pytest.param(
            [part(METRICS, "/p", A={"x": 2})], {"A": {"x": 1}, "A_v2": {"x": 2}}, ["A_v2"], id="another gets a suffix"
        ),
        pytest.param(
            [part(METRICS, "/p", A={"x": 2}), part(server("z.example.com", "v1", 5000), "/q", A={"x": 3})],
            {"A": {"x": 1}, "A_v2": {"x": 3}, "A_v3": {"x": 2}},
            ["A_v3", "A_v2"],
            id="the highest priority first",
        ),
    ],
)
def test_types_of_the_same_name(parts: list[ServerDocument], types: dict[str, Any], references: list[str]) -> None:
    merged = merge_v2({"swagger": "2.0", "paths": {}, "definitions": {"A": {"x": 1}}}, parts)
    assert merged["definitions"] == types
    assert [merged["paths"][path]["get"]["$ref"].rpartition("/")[2] for path in merged["paths"]] == references


def test_paths_of_another_server_replace_those_from_here() -> None:
    local: dict[str, Any] = {"paths": {f"{BASE}/old": {}, "/apis/b/v1/c": {}}, "definitions": {}}
    merged = merge_v2(local, [part(METRICS, f"{BASE}/new", A={})])
    assert list(merged["paths"]) == ["/apis/b/v1/c", f"{BASE}/new"]


async def test_a_document_that_is_no_openapi_is_left_out(api_database: str, tmp_path: Path) -> None:
    """With it, kubectl would get an internal error for all that the tenant has."""
    document: dict[str, Any] = {"paths": {f"{BASE}/metrics": {"get": 5}}, "definitions": {}}

    async def answer(request: Request) -> None:
        await request.answer_json(document if request.target == "/openapi/v2" else {})

    async with backend(tmp_path / "server", answer) as behind, serving(api_database, tmp_path, **placed(behind)) as api:
        await register(api, behind)

        async def is_read() -> bool:
            await api.get("/openapi/v2")
            return bool(behind.of("/openapi/v2"))

        await eventually(is_read)
        for accept in ("application/json", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"):
            for _ in range(5):
                found = await api.get("/openapi/v2", accept=accept)
                assert (found.code, f"{BASE}/metrics".encode() in found.body) == (200, False)
                await asyncio.sleep(0.01)


async def test_the_document(api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = False

    async def answer(request: Request) -> None:
        if hangs:
            await asyncio.sleep(NEVER)
        await request.answer_json(DOCUMENT if request.target == "/openapi/v2" else {})

    async with backend(tmp_path / "server", answer) as behind, serving(api_database, tmp_path, **placed(behind)) as api:
        await register(api, behind)

        async def has_path() -> bool:
            document = (await api.get("/openapi/v2")).ok(200)
            return f"{BASE}/metrics" in document["paths"] and "/apis/other.example.com/v1/x" not in document["paths"]

        await eventually(has_path)
        # Nobody waits for a server that hangs.
        monkeypatch.setattr(openapi_documents, "_FETCH_SECONDS", 3600)
        hangs = True
        async with asyncio.timeout(60):
            assert await has_path()
        # While it hangs, only the requests of the first moment wait: all of them did, for five seconds of each minute.
        monkeypatch.setattr(openapi_documents, "_FRESH_SECONDS", 0)
        monkeypatch.setattr(openapi_documents, "WAIT_SECONDS", 2)
        assert await has_path()
        began = time.monotonic()
        for _ in range(10):
            assert await has_path()
        assert time.monotonic() - began < 10


async def test_the_documents_of_a_tenant_have_a_limit_together(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred servers have 40 million values in a few megabytes."""
    large: dict[str, Any] = {"paths": {f"{BASE}/metrics": {"x": [[] for _ in range(60_000)]}}, "definitions": {}}

    async def answer(request: Request) -> None:
        await request.answer_json(large if request.target == "/openapi/v2" else {})

    async with backend(tmp_path / "server", answer) as behind, serving(api_database, tmp_path, **placed(behind)) as api:
        await register(api, behind)

        async def has_path() -> bool:
            return f"{BASE}/metrics" in (await api.get("/openapi/v2")).ok(200)["paths"]

        await eventually(has_path)
        monkeypatch.setattr(openapi_documents, "_BYTES_OF_TENANT", 2 * 1024 * 1024)
        assert not await has_path()
