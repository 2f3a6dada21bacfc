"""The texts of unsuccessful answers."""

from __future__ import annotations

import orjson
import pytest

from registry.webhooks.client import refusal_text
from registry.webhooks.https import HttpsAnswer

STATUS = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "no room"}
MORE = "but did not return more information"


@pytest.mark.parametrize(
    "status, content_type, data, text",
    [
        pytest.param(500, "application/json", orjson.dumps(STATUS), "no room", id="a Status"),
        pytest.param(
            418,
            "application/json",
            orjson.dumps({**STATUS, "details": "x" * 70_000}),
            f"the server responded with the status code 418 {MORE}",
            id="a Status that is too long to be decoded at once",
        ),
        pytest.param(
            500,
            "text/plain",
            b"it broke",
            'an error on the server ("it broke") has prevented the request from succeeding',
            id="plain text",
        ),
        pytest.param(
            418, "application/json", b"[]", f"the server responded with the status code 418 {MORE}", id="no Status"
        ),
    ],
)
def test_texts(status: int, content_type: str, data: bytes, text: str) -> None:
    assert refusal_text(HttpsAnswer(status, content_type, "", data)) == text
