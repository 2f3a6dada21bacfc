"""Assertions on the Status of a failed request."""

from __future__ import annotations

from typing import Any

from tests.api.client import Answer

_MEMBERS = {"kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"}
_DETAILS = {"name", "group", "kind", "uid", "causes", "retryAfterSeconds"}


def failure(answer: Answer, code: int, reason: str) -> Any:
    """Asserts that a response is a well-formed Status with this code and reason, and returns it."""
    assert answer.code == code, answer.text
    assert answer.header("content-type") in ("application/json", "application/yaml"), answer.headers
    assert answer.header("audit-id"), "an answer can be found in the logs"
    assert answer.header("cache-control") == "no-cache, private"
    return status_shape(answer.json, code, reason)


def status_shape(status: Any, code: int, reason: str) -> Any:
    """Asserts the same of a decoded Status, for example from the ERROR event of a watch."""
    assert status.keys() <= _MEMBERS, status.keys() - _MEMBERS
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == code, status
    assert status.get("reason", "") == reason, status
    assert isinstance(status["metadata"], dict)
    assert isinstance(status.get("message", ""), str)
    if "details" in status:
        details = status["details"]
        assert details.keys() <= _DETAILS, details.keys() - _DETAILS
        for cause in details.get("causes", []):
            assert cause.keys() <= {"reason", "message", "field"}, cause
            assert cause["message"] or cause.get("reason"), cause
    return status
