"""One started server for the recorded exchanges of a test process: it ends with them, since an idle one costs time, too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.harness import ARGUMENTS
from tests.folders import data_folder
from tests.running import RunningServer, running_server


@pytest.fixture(scope="package")
def server() -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder / "data", *ARGUMENTS) as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How much of what was recorded is answered alike, an area a line."""
    counts: dict[tuple[str, str], list[int]] = {}
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, value in report.user_properties:
            if name == "replayed":
                area, level, good, total = value
                count = counts.setdefault((area, level), [0, 0])
                count[0] += good
                count[1] += total
    if counts:
        terminalreporter.write_sep("-", "recorded exchanges answered alike")
    for (area, level), (good, total) in sorted(counts.items()):
        terminalreporter.write_line(f"{area:12} {level:9} {good:5}/{total:<5} {100 * good / total:5.1f} %")
