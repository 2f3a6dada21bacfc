"""A condition that lasts has few lines in the log."""

from __future__ import annotations

import logging
import time

import pytest

from registry.logs import LoggedCondition

logger = logging.getLogger(__name__)

Step = tuple[float, str]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([(0, "hold")], ["away: refused"], id="begins"),
        pytest.param([(0, "hold"), (1, "end")], ["away: refused", "back after 1.0 s"], id="ends"),
        pytest.param([(at / 4, "hold") for at in range(200)], ["away: refused"], id="lasts-less-than-a-minute"),
        pytest.param(
            [(at, "hold") for at in range(62)],
            ["away: refused", "away: refused (for 60 s, 61 times)"],
            id="once-a-minute",
        ),
        pytest.param([(0, "end")], [], id="nothing-to-end"),
        pytest.param(
            [(0, "hold"), (1, "end"), (2, "hold"), (3, "end"), (4, "hold"), (5, "end")],
            ["away: refused", "back after 1.0 s"],
            id="comes-and-goes",
        ),
        pytest.param(
            [(0, "hold"), (1, "end"), (20, "hold")],
            ["away: refused", "back after 1.0 s", "away: refused"],
            id="comes-back-later",
        ),
    ],
)
def test_a_condition(
    steps: list[Step], expected: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    condition = LoggedCondition(logger, "away", "back")
    for at, step in steps:
        monkeypatch.setattr(time, "monotonic", lambda at=at: 1000.0 + at)
        if step == "hold":
            condition.hold("refused")
        else:
            condition.end()
    monkeypatch.undo()
    assert caplog.messages == expected


def test_a_short_condition_is_not_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    condition = LoggedCondition(logger, "away", "back", delay_seconds=5)
    for at in (0.0, 4.0):
        monkeypatch.setattr(time, "monotonic", lambda at=at: 1000.0 + at)
        condition.hold("refused")
    condition.end()
    monkeypatch.undo()
    assert caplog.messages == []
