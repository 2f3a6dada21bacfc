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

# Texts between others that stay, and texts in reference cycles that no young search finds.
GROWN = """
import asyncio, gc, sys
from registry.flowcontrol.allocator import return_freed_memory, return_free_memory
return_freed_memory()
gc.set_threshold(0)
def resident():
    with open("/proc/self/statm") as found:
        return int(found.read().split()[1]) * 4096 >> 20
class Node: pass
def grow():
    if sys.argv[1] == "gaps":
        kept = [(bytearray(b"x") * 100_000, bytearray(b"y") * 1000) for _ in range(2000)]
        return [small for _, small in kept]
    for _ in range(200):
        node = Node()
        node.text, node.itself = bytearray(b"x") * 1_000_000, node
async def main():
    task = asyncio.create_task(return_free_memory(0.05)) if sys.argv[2] == "trimmed" else None
    await asyncio.sleep(0.1)
    before = resident()
    kept = grow()
    assert resident() > before + 150
    for _ in range(100 if task else 1):
        await asyncio.sleep(0.05)
        if resident() < before + 50:
            break
    print(resident() - before)
asyncio.run(main())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
@pytest.mark.parametrize("what", ["gaps", "cycles"])
def test_a_process_that_has_grown_returns_what_is_free(what: str) -> None:
    kept, trimmed = (_printed(GROWN, what, how) for how in ("kept", "trimmed"))
    assert trimmed < 50 < 150 < kept


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_freed_texts_are_returned_to_the_system() -> None:
    kept, returned = (_printed(SCRIPT, how) for how in ("kept", "returned"))
    assert returned < 10 < kept


def _printed(script: str, *arguments: str) -> int:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout)
