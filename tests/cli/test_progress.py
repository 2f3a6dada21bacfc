"""Progress: one line that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest

from registry.cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar() -> None:
    out = Terminal()
    with ProgressBar("objects removed", out) as progress:
        progress.show(0, 10)
        progress.show(5, 10)
        progress.show(5, 10)
        progress.show(10, 10)
    shown = out.getvalue().split("\r\x1b[K")[1:]
    assert shown == [
        f"objects removed  [{' ' * 30}]  0 of 10",
        f"objects removed  [{'=' * 15}{' ' * 15}]  5 of 10",
        f"objects removed  [{'=' * 30}]  10 of 10\n",
    ]


def test_without_a_total_there_is_a_figure() -> None:
    out = Terminal()
    with ProgressBar("rows sealed", out) as progress:
        progress.show(7, None)
    assert out.getvalue() == "\r\x1b[Krows sealed  7\n"


def test_without_a_terminal_plain_lines_are_printed_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.0, 1.0, 5.5, 5.5, 6.0, 6.0])
    monkeypatch.setattr("registry.cli.progress.monotonic", lambda: next(times))
    out = io.StringIO()
    with ProgressBar("objects removed", out) as progress:
        for done in (0, 3, 6, 10):
            progress.show(done, 10)
    assert out.getvalue().splitlines() == [
        "0 of 10 objects removed",
        "6 of 10 objects removed",
        "10 of 10 objects removed",
    ]
