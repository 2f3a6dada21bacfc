"""docs/differences.md and the lists of recorded cases that are answered differently name the same recordings."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT

RECORDED = ROOT / "tests/conformance"
LISTS = ("known_failures.txt", "timing.txt", "kubectl/known_failures.txt")


def listed() -> set[str]:
    lines = [line for name in LISTS for line in (RECORDED / name).read_text().splitlines()]
    return {Path(line.partition("::")[0]).name for line in lines if not line.startswith("#")}


def explained() -> set[str]:
    recordings = {path.name for path in RECORDED.rglob("*.yaml")}
    return recordings & set(re.findall(r"[\w-]+\.yaml", (ROOT / "docs/differences.md").read_text()))


def test_each_recording_with_a_case_that_differs_is_explained() -> None:
    assert len(listed()) > 20
    assert listed() == explained()
