"""Access log lines, and the audit id on everything that is logged for a request."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from registry import logs
from registry.http.middleware.instrumentation import log_answer
from registry.http.request_info import request_info
from registry.http.request_state import RequestState
from registry.logs import loggable


def record(text: str = "it happened", *values: object, exc_info: Any = None, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("registry.x", logging.INFO, "", 1, text, values, exc_info)
    made.fields = fields
    return made


@pytest.fixture(autouse=True)
def no_request() -> None:
    logs._served.set(None)


def test_a_line_of_a_request_has_its_audit_id() -> None:
    formatter = logs.JsonFormatter(None)
    assert "request" not in json.loads(formatter.format(record()))
    request = logs.begin_request()
    line = json.loads(formatter.format(record(a=1)))
    assert (line["request"], line["a"], line["message"]) == (request.audit_id, 1, "it happened")
    text = logs.TextFormatter(2).format(record())
    assert text.endswith(f"[2] info registry.x: it happened request={request.audit_id}")
    request.audit_id = ""
    assert "request" not in json.loads(formatter.format(record()))


@pytest.mark.parametrize(
    "given, kept",
    [
        ("0b57e1f2-95d6-4c07-8f2e-0d3a3c1e1a11", True),
        ("trace.7_a", True),
        ("", False),
        ("a b", False),
        ("a\nb", False),
        ('a"b', False),
        ("é", False),
        ("---", False),
    ],
)
def test_a_client_may_name_its_request(given: str, kept: bool) -> None:
    logs.begin_request(given)
    assert (logs.audit_id() == given) is kept
    assert logs.audit_id()


def test_a_long_name_is_cut() -> None:
    assert logs.begin_request("a" * 1000).audit_id == "a" * 64


def test_no_line_can_be_forged(caplog: pytest.LogCaptureFixture) -> None:
    scope: dict[str, Any] = {
        "method": "GET",
        "path": "/apis/a\n2026 info: forged\x1b[2J",
        "query_string": b"a=\xff",
        "client": None,
    }
    with caplog.at_level(logging.INFO, "registry.access"):
        info = request_info("GET", scope["path"])
        request = logs.begin_request()
        state = RequestState(info, {b"user-agent": b"x\ny"}, info.attributes(), request, 0.0, [], code=404)
        log_answer(scope, state, 0.0015)
    [line] = caplog.records
    text = logs.TextFormatter(None).format(line)
    assert "\n" not in text
    assert "\x1b" not in text
    assert "code=404" in text
    assert "milliseconds=1.5" in text
    assert json.loads(logs.JsonFormatter(None).format(line))["userAgent"] == r"x\ny"


# Not logged by a test: what pytest captures of a log must be encodable.
FORGED = "no\n2026-01-31T12:00:00.123Z info registry: forged\x1b[2J\u2028\ud800"


@pytest.mark.parametrize("formatter", [logs.TextFormatter(None), logs.JsonFormatter(None)], ids=["text", "json"])
def test_no_message_can_be_forged(formatter: logging.Formatter) -> None:
    """Messages quote what servers of tenants answer."""
    text = formatter.format(record("failing open: %s", FORGED))
    assert text.isprintable()
    assert "failing open: no" in text


def test_no_traceback_can_be_forged() -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info())
    first, *others = logs.TextFormatter(None).format(failed).split("\n")
    assert first.endswith("registry.x: failed")
    assert all(other.startswith("  ") for other in others)


def test_messages_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("registry").warning("a" * 300_000)
    [line] = caplog.records
    text = logs.TextFormatter(None).format(line)
    assert len(text) < 5000
    assert text.endswith("a... (300000 characters)")


def test_kinds_of_warnings_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    warnings = logs.RateLimited(logging.getLogger("registry"))
    for number in range(3000):
        warnings.warn(f"tenant {number}", "%s", number)
    assert len(caplog.records) == 3000
    assert len(warnings._last_lines) <= 1000


def test_logged_values_are_bounded() -> None:
    assert len(loggable("a" * 100_000)) == 1024
