"""Traces as a collector receives them: an OTLP receiver on loopback and a started server."""

from __future__ import annotations

import gzip
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from registry import tracing
from tests.api.widgets import WIDGETS, widget
from tests.faults.clients import ServerClient, eventually
from tests.folders import data_folder
from tests.processes import refusal, registry
from tests.running import RunningServer, running_server

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Receiver:
    """What exporters send to /v1/traces: spans of opentelemetry.proto.trace.v1."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def take(self, path: str, body: bytes) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services |= {
                one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
            }
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra `tracing` is not installed")
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


@pytest.fixture
def traced(
    postgres_server: str, database_url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RunningServer]:
    """A server that sends traces as soon as they are there."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with (
        data_folder() as folder,
        running_server(folder / "s", "--database-url", database_url, "--plain-http") as server,
    ):
        yield server


def _attributes(span: Any) -> dict[str, Any]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@pytest.mark.slow
async def test_a_write_is_traced_from_the_request_to_the_sql(traced: RunningServer, receiver: Receiver) -> None:
    async with ServerClient(traced.url, traced.token) as client:
        await client.define_widgets()
        client._http.headers["traceparent"] = PARENT
        answer = await client.request("POST", WIDGETS, widget("traced", size=41))
        assert answer.status_code == 201

    async def found() -> list[Any]:
        trace = [span for span in receiver.spans if span.trace_id.hex() == PARENT[3:35]]
        return trace if any(span.kind == span.SPAN_KIND_SERVER for span in trace) else []

    trace = await eventually(found)
    [request] = [span for span in trace if span.kind == span.SPAN_KIND_SERVER]
    assert request.name == "POST widgets"
    assert request.parent_span_id.hex() == PARENT[36:52]
    attributes = _attributes(request)
    assert attributes["http.response.status_code"] == 201
    assert (attributes["registry.verb"], attributes["registry.tenant"]) == ("create", "default")
    assert attributes["registry.audit_id"] == answer.headers["audit-id"]

    [commit] = [span for span in trace if span.name == "commit"]
    [sql] = [span for span in trace if span.name == "SQL commit"]
    assert commit.parent_span_id == request.span_id
    assert sql.parent_span_id == commit.span_id
    assert sql.kind == sql.SPAN_KIND_CLIENT
    assert _attributes(sql) == {"db.system.name": "postgresql", "db.operation.name": "commit"}
    assert request.start_time_unix_nano <= commit.start_time_unix_nano <= sql.start_time_unix_nano
    assert receiver.services == {"registry"}


@pytest.mark.slow
async def test_reads_watches_and_refusals_are_traced(traced: RunningServer, receiver: Receiver) -> None:
    async with ServerClient(traced.url, traced.token) as client:
        await client.define_widgets()
        await client.create("one")
        await client.get(f"{WIDGETS}/one")
        await client.get(WIDGETS)
        assert (await client.request("GET", "/apis/nobody.example.com/v1/secrets-of-mine")).status_code == 404
        async with client.watch(0):

            async def ended() -> bool:
                """A watch that goes on has a span of its beginning."""
                return any(_attributes(span).get("registry.verb") == "watch" for span in list(receiver.spans))

            await eventually(ended)

    async def named() -> bool:
        names = {span.name for span in list(receiver.spans)}
        return {"GET widgets", "point-read"} <= names and bool({"SQL load", "SQL load-some"} & names)

    await eventually(named)
    assert not any("secrets-of-mine" in str(span) or "nobody" in str(span) for span in receiver.spans)


@pytest.mark.slow
async def test_an_unreachable_collector_does_not_affect_requests(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with (
        data_folder() as folder,
        running_server(folder / "s", "--database-url", database_url, "--plain-http") as server,
    ):
        async with ServerClient(server.url, server.token) as client:
            await client.define_widgets()
            assert (await client.create("one")).status_code == 201
        assert server.stop() == 0


@pytest.mark.parametrize(
    "variables, expected",
    [
        pytest.param({}, False, id="nothing-set"),
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False, id="empty"),
        pytest.param({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True, id="endpoint"),
        pytest.param({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/t"}, True, id="endpoint-of-traces"),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "TRUE"}, False, id="sdk-disabled"
        ),
        pytest.param(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, False, id="no-exporter"
        ),
    ],
)
def test_the_standard_variables_switch_traces(variables: dict[str, str], expected: bool) -> None:
    assert tracing.is_requested(variables) is expected


def test_an_unknown_protocol_is_refused_at_start(tmp_path: Path) -> None:
    done = registry(
        "serve", "--data-dir", tmp_path / "d",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4317", OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
    )  # fmt: skip
    assert "OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported; it must be http/protobuf" in refusal(done, 1)


def test_opentelemetry_is_not_imported_when_tracing_is_off(tmp_path: Path) -> None:
    """Free of cost: no import, no middleware, PostgreSQL's own cursor."""
    import subprocess
    import sys

    code = "import sys, registry.http.app; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert not tracing.is_on()
    assert tracing.current() is None
