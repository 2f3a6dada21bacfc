"""The console's logic without a browser, run by node's test runner."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("logic")
NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="node is not on this machine")
@pytest.mark.parametrize(
    "file", sorted(FOLDER.glob("*.test.mjs")), ids=lambda file: file.name.removesuffix(".test.mjs")
)
def test_logic(file: Path) -> None:
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--test", "--test-reporter=tap", str(file)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    passed = re.search(r"^# pass (\d+)$", done.stdout, re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) > 5
