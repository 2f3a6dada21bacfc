"""Progress of long work: a bar on a terminal, otherwise a plain line at intervals."""

from __future__ import annotations

import sys
from time import monotonic
from types import TracebackType
from typing import Final, Self, TextIO

_WIDTH: Final = 30
# The interval between lines without a terminal.
_LINE_SECONDS: Final = 5.0


class ProgressBar:
    """`objects removed  [=========>           ]  4000 of 9000` on stderr.

    Invariant: `_bar` says whether an unfinished line stands on the terminal.
    """

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._bar = False
        self._shown = (-1, -1)
        self._next_line = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._stream.write("\n")

    def show(self, done: int, total: int | None) -> None:
        """Shows the progress. `total` None: unknown."""
        if (done, total or 0) == self._shown:
            return
        figures = f"{done}" if total is None else f"{done} of {total}"
        if self._is_terminal:
            filled = 0 if not total else min(_WIDTH, _WIDTH * done // total)
            bar = "" if total is None else f"  [{'=' * filled}{' ' * (_WIDTH - filled)}]"
            self._stream.write(f"\r\x1b[K{self._what}{bar}  {figures}")
            self._stream.flush()
            self._bar = True
        elif monotonic() >= self._next_line or done == total:
            self._next_line = monotonic() + _LINE_SECONDS
            print(f"{figures} {self._what}", file=self._stream, flush=True)
        self._shown = (done, total or 0)
