"""Warnings of an answer: webhooks and policies of a tenant choose them."""

from __future__ import annotations

import time

import pytest

from registry.http.responses import bound_warnings, warning_headers

MIB = 1 << 20


@pytest.mark.parametrize(
    "texts, expected",
    [
        pytest.param(["a", "b", "a", ""], ["a", "b"], id="each once"),
        pytest.param(["a\nb", "c\x7f", "d"], ["d"], id="control characters"),
        pytest.param(["a" * 4096, "b"], ["a" * 4096], id="as long as all"),
        pytest.param(["a" * 300, "b" * 4000, "c" * 300], ["a" * 256, "b" * 256, "c" * 256], id="cut"),
        pytest.param([str(i % 10) + "x" * 999 + str(i) for i in range(20)], None, id="no more than fit"),
    ],
)
def test_warnings_are_bounded(texts: list[str], expected: list[str] | None) -> None:
    found = bound_warnings(texts)
    assert sum(map(len, found)) <= 4096 + 256
    assert expected is None or found == expected


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["a" * (16 * MIB)], id="long"),
        pytest.param([f"{i}" + "é" * (4 * MIB) for i in range(10)], id="several long ones"),
        pytest.param(['"' * (16 * MIB)], id="quotes"),
        pytest.param([f"w{i}" for i in range(500_000)], id="many"),
        pytest.param(["w"] * 500_000, id="many equal ones"),
        pytest.param(["\x01"] * 500_000, id="many refused ones"),
    ],
)
def test_answers_of_webhooks_do_not_hold_the_event_loop(texts: list[str]) -> None:
    began = time.thread_time()
    headers = warning_headers(texts)
    assert time.thread_time() - began < 0.05
    assert sum(len(text) for _, text in headers) < 32_000
