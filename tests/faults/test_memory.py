"""What clients can make a server hold: objects that are large as they are served, and small as they are stored.

A started server; its memory is what the kernel says was the most that the process had resident.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import psycopg
import pytest

from registry.postgres.folder import running_url
from tests.folders import data_folder
from tests.running import RunningServer, running_server

pytestmark = pytest.mark.slow

COUNT = 28
# More than half of what is read at a time.
LETTERS = 2_200_000
# What a request may add to the resident memory of the process. All objects together have 62 MB.
MORE_MB = 45.0
# What the process keeps of the list in memory, and what the list leaves behind in its allocator.
KEPT_MB = 64 + MORE_MB
# How many are deleted with their definition, and what that may add. They have 132 MB.
DELETED_COUNT = 60
DELETION_MB = 114.0
# What answers may hold that their clients do not read; half of it is for one tenant.
ANSWER_LIMIT_MB = 96
# Half of the answers, what those under way are made from, and what the allocator keeps of the cases before: 117 MB here.
UNREAD_MB = ANSWER_LIMIT_MB / 2 + 180.0
UNREAD_CLIENTS = 24
NAME = "memory.example.com"
# Copies of the first object, as if each had been made by a request.
COPY_OBJECTS = """
    INSERT INTO objects (tenant_id, resource, key, uid, revision, version, schema_id, body, created_at, updated_at)
    SELECT tenant_id, resource, 'default/text-' || lpad(n::text, 2, '0'), new, revision, version, schema_id,
        replace(replace(body, 'text-00', 'text-' || lpad(n::text, 2, '0')), uid::text, new::text), created_at, updated_at
    FROM objects, LATERAL (SELECT n, gen_random_uuid() AS new FROM generate_series(%(first)s, %(end)s - 1) n) copies
    WHERE key = 'default/text-00'
"""
GROUP = "/apis/memory.example.com/v1/namespaces/default/texts"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "texts.memory.example.com"},
    "spec": {
        "group": "memory.example.com",
        "scope": "Namespaced",
        "names": {"plural": "texts", "singular": "text", "kind": "Text", "listKind": "TextList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"text": {"type": "string"}}}},
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """Filled, and started again: so what the writes took is not in it."""
    with data_folder() as folder:
        with running_server(folder / "data") as filling:
            _fill(filling)
        with running_server(folder / "data", "--answer-limit-megabytes", str(ANSWER_LIMIT_MB)) as running:
            yield running


@pytest.fixture(scope="module")
def base_kb(server: RunningServer) -> int:
    """What the process has resident once it keeps what it keeps of the list in memory."""
    with closing(Api(server)) as api:
        assert api.request("GET", "/apis/memory.example.com/v1")[0] == 200
        before = _memory(server, "VmRSS")
        for _ in range(3):
            assert api.request("GET", GROUP)[0] == 200
    kept = _memory(server, "VmRSS")
    assert (kept - before) / 1024 < KEPT_MB
    return kept


@pytest.fixture
def api(server: RunningServer) -> Iterator[Api]:
    with closing(Api(server)) as made:
        yield made


@pytest.fixture
def grown_mb(server: RunningServer, base_kb: int) -> Callable[[], float]:
    """How much more than at first the process has had resident since the test began, at the most."""
    (Path("/proc") / str(server.process.pid) / "clear_refs").write_text("5")

    def grown() -> float:
        megabytes = (_memory(server, "VmHWM") - base_kb) / 1024
        print(f"{base_kb / 1024:.0f} MB, +{megabytes:.0f} MB")
        return megabytes

    return grown


def _memory(server: RunningServer, name: str) -> int:
    lines = (Path("/proc") / str(server.process.pid) / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name + ":")).split()[1])


def _fill(server: RunningServer) -> None:
    with closing(Api(server)) as api:
        code, _, end = api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        assert code == 201, end
        _until(lambda: api.request("GET", GROUP)[0] == 200)
        text = {
            "apiVersion": f"{NAME}/v1",
            "kind": "Text",
            "metadata": {"name": "text-00"},
            "spec": {"text": "a" * LETTERS},
        }
        code, _, end = api.request("POST", GROUP, text)
        assert code == 201, end
    _copy(server, 1, COUNT)


def _copy(server: RunningServer, first: int, end: int) -> None:
    found = running_url(server.data_dir / "postgres")
    assert found is not None
    with psycopg.connect(found[0]) as connection:
        connection.execute(COPY_OBJECTS, {"first": first, "end": end})


class Api:
    """One connection."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._context = ssl.create_default_context(cafile=str(server.authority))
        self._connection = HTTPSConnection("127.0.0.1", server.port, context=self._context, timeout=120)

    def request(
        self, method: str, path: str, body: Any = None, accept: str = "application/json"
    ) -> tuple[int, int, bytes]:
        """Code, length and the last kilobyte of the answer, which is read as it comes."""
        code, answer = self._ask(method, path, body, accept)
        length, end = 0, b""
        while piece := answer.read(1 << 16):
            length += len(piece)
            end = (end + piece)[-1024:]
        return code, length, end

    def _ask(self, method: str, path: str, body: Any, accept: str) -> tuple[int, HTTPResponse]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._server.token}", "Accept": accept, "Content-Type": kind}
        self._connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self._connection.getresponse()
        return answer.status, answer

    def json(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        code, answer = self._ask(method, path, body, "application/json")
        return code, json.loads(answer.read())

    def text(self, method: str, path: str) -> tuple[int, str]:
        code, answer = self._ask(method, path, None, "text/plain")
        return code, answer.read().decode()

    def close(self) -> None:
        self._connection.close()


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.05)


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
READS = {
    "list of all": (GROUP, "application/json"),
    "list of all in YAML": (GROUP, "application/yaml"),
    "list of all, indented": (GROUP + "?pretty=true", "application/json"),
    "table of all": (GROUP, TABLE),
    "table of all with objects": (GROUP + "?includeObject=Object", TABLE),
    "metadata of all": (GROUP, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    "what a watch begins with": (GROUP + "?watch=true&timeoutSeconds=2", "application/json"),
    "a name over all namespaces": (
        "/apis/memory.example.com/v1/texts?fieldSelector=metadata.name!%3Dx",
        "application/json",
    ),
}


@pytest.mark.parametrize("path, accept", READS.values(), ids=READS)
def test_reads(api: Api, grown_mb: Callable[[], float], path: str, accept: str) -> None:
    code, _, end = api.request("GET", path, accept=accept)
    assert code == 200, end
    assert grown_mb() < MORE_MB


def test_pages(api: Api, grown_mb: Callable[[], float]) -> None:
    names, token = 0, ""
    while True:
        code, page = api.json("GET", f"{GROUP}?limit=500&continue={token}")
        assert code == 200, page
        names += len(page["items"])
        token = page["metadata"]["continue"]
        if not token:
            break
    assert names == COUNT
    assert grown_mb() < MORE_MB


UNREAD = {
    "lists": [GROUP],
    "lists in YAML": [(GROUP, "application/yaml")],
    "tables with objects": [(GROUP + "?includeObject=Object", TABLE)],
    "watches": [GROUP + "?watch=true"],
    "watches of metadata and objects": [
        (GROUP + "?watch=true", TABLE),
        GROUP + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    ],
    "lists and watches": [GROUP, GROUP + "?watch=true", f"{GROUP}/text-00"],
}


class Unread:
    """A client that asks and never reads."""

    def __init__(self, server: RunningServer, path: str, accept: str) -> None:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", server.port))
        self._socket = ssl.create_default_context(cafile=str(server.authority)).wrap_socket(
            plain, server_hostname="127.0.0.1"
        )
        head = f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\nAccept: {accept}\r\n\r\n"
        self._socket.sendall(head.encode())

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("asked", UNREAD.values(), ids=UNREAD)
def test_unread_answers(
    server: RunningServer, api: Api, grown_mb: Callable[[], float], asked: list[str | tuple[str, str]]
) -> None:
    """Many clients that never read: what they hold is bounded by the setting, and others are answered."""
    with ExitStack() as stack:
        for i in range(UNREAD_CLIENTS):
            one = asked[i % len(asked)]
            path, accept = one if isinstance(one, tuple) else (one, "application/json")
            stack.enter_context(closing(Unread(server, path, accept)))
            change = {"metadata": {"annotations": {"n": str(i)}}}
            code, _, end = api.request("PATCH", f"{GROUP}/text-{i:02}", change)
            assert code in (200, 429), end
        for _ in range(20):
            assert _metric(api, "registry_answer_bytes") <= ANSWER_LIMIT_MB << 20
            code, _, end = api.request("GET", "/api/v1/namespaces/default")
            assert code == 200, end
        assert grown_mb() < UNREAD_MB
    _until(lambda: _metric(api, "registry_answer_bytes") == 0)


def _metric(api: Api, name: str) -> float:
    code, lines = api.text("GET", "/metrics")
    assert code == 200
    return next(float(line.split()[1]) for line in lines.splitlines() if line.startswith(f"{name} "))


def test_the_definition_is_deleted(server: RunningServer, api: Api, grown_mb: Callable[[], float]) -> None:
    _copy(server, COUNT, DELETED_COUNT)
    before = grown_mb()  # the allocator has kept some of what unread answers took
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/texts.memory.example.com"
    code, _, end = api.request("DELETE", path)
    assert code == 200, end
    _until(lambda: api.request("GET", path)[0] == 404)
    assert grown_mb() - before < DELETION_MB
