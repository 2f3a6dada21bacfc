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
    task = asyncio.create_task(return_free_memory(lambda: True, 0.05)) if sys.argv[2] == "trimmed" else None
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

# Prints the most objects that a search for cycles visits while half a million of them come to stay, and whether a cycle
# was freed that was made afterwards; then whether one was that had been exempt, and by which search.
SEARCHED = """
import asyncio, gc, sys, time, weakref
from registry.flowcontrol import allocator
class Node: pass
visited = []
def note(phase, search):
    if phase == "start":
        visited.append(sum(len(gc.get_objects(one)) for one in range(search["generation"] + 1)))
def cycle(bytes_):
    node = Node()
    node.text, node.itself = bytearray(b"x") * bytes_, node
    return node
async def main():
    is_shared = sys.argv[1] == "shared"
    allocator._COLLECT_LOOKS = 2
    with allocator.short_searches():
        gc.callbacks.append(note)
        exempt = cycle(1)
        kept = [[] for _ in range(500_000)]
        late = weakref.ref(cycle(1))
        kept += [[] for _ in range(100_000)]
        gc.callbacks.remove(note)
        found = weakref.ref(exempt)
        del exempt
        task = asyncio.create_task(allocator.return_free_memory(lambda: is_shared, 0.05))
        await asyncio.sleep(0.1)
        grown = bytearray(b"x") * 200_000_000
        end = time.monotonic() + 0.6
        while time.monotonic() < end:
            if sys.argv[1] == "busy":
                busy = time.monotonic() + 0.005
                while time.monotonic() < busy:
                    pass
            await asyncio.sleep(0.01)
        print(max(visited), late() is None, found() is None)
asyncio.run(main())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
@pytest.mark.parametrize("whose", ["shared", "busy", "idle"])
def test_no_search_for_cycles_takes_long_unless_nobody_else_waits(whose: str) -> None:
    most, late, exempt = _output(SEARCHED, whose).split()
    assert int(most) < 100_000
    assert (late, exempt) == ("True", str(whose == "idle"))


# Prints how many objects were searched at a time while events replaced those that watches wait in, and how often.
EVENTS = """
import gc
from registry.flowcontrol import allocator
visited = []
def note(phase, search):
    if phase == "start":
        visited.append(sum(len(gc.get_objects(one)) for one in range(search["generation"] + 1)))
def wait():
    return [[] for _ in range(10)]
with allocator.short_searches():
    watches = [wait() for _ in range(10_000)]
    gc.collect(1)
    gc.callbacks.append(note)
    for number in range(20_000):
        watches[number % 10_000] = wait()
        allocator.note_event()
    some = [[] for _ in range(3_000)]
for _ in range(10_000):
    allocator.note_event()
print(max(visited), len(visited))
"""


def test_events_of_watches_cause_many_short_searches_instead_of_a_long_one() -> None:
    """Each frees as many objects as it makes, which the collector does not count: it searched 110,000 at once."""
    most, count = map(int, _output(EVENTS).split())
    assert most < 40_000
    assert 40 <= count <= 50


# Prints whether an exempt cycle is found once many objects have become exempt beside other tenants.
MANY = """
import asyncio, gc, sys, weakref
from registry.flowcontrol import allocator
class Node: pass
def cycle():
    node = Node()
    node.itself = node
    return node
async def main():
    allocator._COLLECT_LOOKS, allocator._MANY_OBJECTS, allocator._MOST_OBJECTS = 2, 100_000, 1_000_000
    allocator._MUCH_GARBAGE = 10_000
    with allocator.short_searches():
        exempt = cycle()
        task = asyncio.create_task(allocator.return_free_memory(lambda: True, 0.05))
        await asyncio.sleep(0.1)
        kept = [[] for _ in range(2_000_000 if sys.argv[1] == "most" else 200_000)]
        for _ in range(20_000 if sys.argv[1] == "garbage" else 0):
            cycle()
        found = weakref.ref(exempt)
        del exempt
        grown = bytearray(b"x") * 200_000_000
        await asyncio.sleep(1)
        print(found() is None)
asyncio.run(main())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
@pytest.mark.parametrize(("what", "searched"), [("live", False), ("garbage", True), ("most", True)])
def test_many_exempt_objects_are_searched_if_they_are_probably_garbage(what: str, searched: bool) -> None:
    assert _output(MANY, what).strip() == str(searched)


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
    return int(_output(script, *arguments))


def _output(script: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return done.stdout
