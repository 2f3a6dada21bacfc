"""Traces by OpenTelemetry, from the request to the SQL: off unless OTEL_EXPORTER_OTLP_ENDPOINT is set.

The standard variables say everything (opentelemetry.io, "Environment Variable Specification"): the
SDK reads them. Off, nothing of it is imported, the request has no further middleware and SQL no other cursor. On:

    GET widgets                 SERVER, the request; a child of the caller's span, where `traceparent` names one
      point-read, commit, ...   INTERNAL, work that requests share: a child of the first, linked to the others
        SQL registry:load       CLIENT, a statement by its name

Spans carry names and counts, never an object, a value of a statement, or a credential.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

logger = logging.getLogger(__name__)

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOL: Final = "http/protobuf"
# The limit at exit for sending the remaining spans, if a collector hangs.
FLUSH_SECONDS: Final = 3.0

_NAME: Final = re.compile(r"\s*(?:/\* registry:([\w-]+) \*/|(\w+))")

# None while tracing is off.
_tracer: Any = None


class TracingError(Exception):
    """The variables ask for something that is not available; the text is one line for the user."""


def is_requested(variables: Mapping[str, str]) -> bool:
    """Returns whether the variables ask for traces."""
    return (
        any(variables.get(name) for name in ENDPOINTS)
        and variables.get("OTEL_SDK_DISABLED", "").lower() != "true"
        and variables.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    )


@contextlib.contextmanager
def exporting(variables: Mapping[str, str]) -> Iterator[None]:
    """Enables tracing for the duration of the block, if the variables ask for it. Raises TracingError."""
    global _tracer
    if not is_requested(variables):
        yield
        return
    provider = _provider(variables)
    _tracer = provider.get_tracer("registry")
    try:
        yield
    finally:
        _tracer = None
        # Without a limit the SDK would wait for its own timeouts if the collector is down.
        ending = threading.Thread(target=provider.shutdown, name="registry traces", daemon=True)
        ending.start()
        ending.join(FLUSH_SECONDS)


def check(variables: Mapping[str, str]) -> None:
    """Raises TracingError if `exporting` would."""
    if is_requested(variables):
        _provider(variables).shutdown()


def _provider(variables: Mapping[str, str]) -> Any:
    protocol = variables.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or variables.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in (None, "", PROTOCOL):
        raise TracingError(f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol} is not supported; it must be {PROTOCOL}")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TracingError(
            f"OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, and their libraries are not installed ({error}):"
            " pip install 'registry[tracing]'"
        ) from error
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override this name.
    resource = Resource({SERVICE_NAME: "registry"}).merge(Resource.create())
    if not variables.get("OTEL_SERVICE_NAME") and "service.name=" not in variables.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        resource = resource.merge(Resource({SERVICE_NAME: "registry"}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def is_on() -> bool:
    return _tracer is not None


def current() -> Any:
    """Returns the current span, for `shared`; None if tracing is off, or no span is active."""
    if _tracer is None:
        return None
    from opentelemetry import trace

    span = trace.get_current_span()
    return span if span.get_span_context().is_valid else None


@contextlib.contextmanager
def request(method: str, headers: Mapping[bytes, bytes]) -> Iterator[Any]:
    """Starts the span of a request. Tracing must be on."""
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {name: headers[name.encode()].decode("latin-1") for name in _CARRIED if name.encode() in headers}
    parent = TraceContextTextMapPropagator().extract(carrier)
    with _tracer.start_as_current_span(
        method, context=parent, kind=SpanKind.SERVER, end_on_exit=False, record_exception=False
    ) as span:
        yield span


_CARRIED: Final = ("traceparent", "tracestate")


def shared(name: str, spans: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
    """Starts a span for work shared by several requests, in its own task: `spans` are what `current` was in each."""
    parents = [span for span in spans if span is not None]
    if _tracer is None or not parents:
        return contextlib.nullcontext()
    from opentelemetry import trace

    links = [trace.Link(span.get_span_context()) for span in parents[1:]]
    parent = trace.set_span_in_context(parents[0])
    span: contextlib.AbstractContextManager[Any] = _tracer.start_as_current_span(
        name, context=parent, links=links, attributes={"registry.requests": len(parents)}
    )
    return span


def statement(text: object) -> contextlib.AbstractContextManager[Any]:
    """Starts a span for a statement, unless no request is being served: polls and probes are not traced."""
    if current() is None:
        return contextlib.nullcontext()
    from opentelemetry.trace import SpanKind

    match = _NAME.match(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))
    name = (match[1] or match[2].upper()) if match else "statement"
    attributes = {"db.system.name": "postgresql", "db.operation.name": name}
    span: contextlib.AbstractContextManager[Any] = _tracer.start_as_current_span(
        f"SQL {name}", kind=SpanKind.CLIENT, attributes=attributes
    )
    return span
