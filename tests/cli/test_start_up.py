"""Start-up cost of commands: which modules each may import before it runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from registry.cli.root import COMMANDS
from tests.processes import ROOT, environment

# Processor time of a command by that of Python's own start in the same process: five is usual.
LIMIT = 15
# Each takes a tenth of a second or more.
HEAVY = ("psycopg", "uvicorn", "starlette", "cryptography", "alembic", "sqlalchemy", "re2", "celpy", "asyncio")

MEASURED = """
import time
of_python = time.process_time()
import json, os, sys
from registry.cli.root import main
try:
    sys.stdout = open(os.devnull, "w")
    main(sys.argv[1:])
except SystemExit:
    pass
finally:
    sys.stdout = sys.__stdout__
print(json.dumps({"ratio": time.process_time() / of_python, "modules": list(sys.modules)}))
"""


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_command_starts_quickly(command: str) -> None:
    """The best of some runs: others on the machine make a process slower, never faster."""
    ratios = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, *([command] if command else []), "--help"],
            env=environment(), capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        found = json.loads(done.stdout)
        assert not set(HEAVY) & set(found["modules"])
        ratios.append(found["ratio"])
        if min(ratios) < LIMIT:
            return
    pytest.fail(f"{min(ratios):.1f} times as long as Python by itself")
