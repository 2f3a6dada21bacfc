"""Runs one attack in a process of its own:

    python -m benchmarks.attacks URL TOKEN ATTACK

prints "prepared", begins once it is given a line, and prints at the end of its input the counts of the answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from benchmarks.attacks import ATTACKS
from benchmarks.attacks.attacker import Attacker
from benchmarks.client import Target


async def _attack(target: Target, name: str) -> Counter[str]:
    """Prepares, waits for a line of the standard input, and attacks until its end."""
    attacker = Attacker(target)
    task = asyncio.create_task(ATTACKS[name](attacker))
    await _first(task, attacker.prepared.wait())
    print("prepared", flush=True)
    await _first(task, asyncio.to_thread(sys.stdin.readline))
    attacker.may_begin.set()
    await _first(task, asyncio.to_thread(sys.stdin.read))
    task.cancel()
    return attacker.answers


async def _first(attack: asyncio.Task[None], event: Coroutine[Any, Any, object]) -> None:
    """Waits for the event. The attack does not end by itself: raises what it failed with."""
    done, _ = await asyncio.wait({attack, asyncio.create_task(event)}, return_when=asyncio.FIRST_COMPLETED)
    if attack in done:
        attack.result()


if __name__ == "__main__":
    os.nice(5)  # in life it has its own machine, and takes no processor from the server
    found = asyncio.run(_attack(Target(sys.argv[1], sys.argv[2]), sys.argv[3]))
    print(json.dumps(found), flush=True)
