"""Memory that was freed is the system's again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Texts as large as bodies, between small ones that stay: prints how many MiB are resident once the large ones are freed.
SCRIPT = """
import sys
from registry.flowcontrol.allocator import return_freed_memory
if sys.argv[1] == "returned":
    return_freed_memory()
def resident():
    with open("/proc/self/statm") as found:
        return int(found.read().split()[1]) * 4096 >> 20
before = resident()
bytearray(b"x") * 2_900_000
kept = [(bytearray(b"x") * 2_900_000, bytes(1000)) for _ in range(50)]
assert resident() > before + 100
kept = [small for _, small in kept]
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_texts_are_returned_to_the_system() -> None:
    kept, returned = (_resident_mib(how) for how in ("kept", "returned"))
    assert returned < 10 < kept


def _resident_mib(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True)
    return int(done.stdout)
