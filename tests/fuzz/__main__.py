"""`python -m tests.fuzz --requests 50000 --seed 7`: a long run, whose findings are minimised and kept.

Starts a server with a PostgreSQL of its own, where it can in a network of nothing but loopback, and prints what it
found and how often each code was answered. Exit code 1 when anything was found.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.folders import data_folder
from tests.fuzz.calls import Call, Entry, read_entry, write_entry
from tests.fuzz.episodes import Found, Log, Session, plans, play, replay
from tests.fuzz.isolation import isolate
from tests.fuzz.minimise import minimised
from tests.fuzz.mutations import Mutator
from tests.fuzz.wire import Wire
from tests.running import running_server

CORPUS = Path(__file__).parent / "corpus"
# Requests of one plan before the next: a short run then sees some eighty of them.
_EPISODE = 25
# Of one fault a run shows the first.
_MAX_MINIMISED = 40


def main() -> int:
    arguments = _arguments()
    sys.set_int_max_str_digits(0)
    sys.setrecursionlimit(10_000)
    why_not = isolate()
    if why_not:
        print(f"no network of its own ({why_not}): requests that name webhooks are left out")
    with data_folder() as folder, running_server(folder / "data", "--plain-http", "--cbor") as server:
        session = Session(
            Wire(server.port, server.token),
            Log(server.data_dir / "server.log"),
            server.token,
            f"s{arguments.seed}",
            arguments.slow_seconds,
        )
        if arguments.replay:
            return _replayed(session, sorted(arguments.corpus.glob("*.yaml")))
        memory = psutil.Process(server.process.pid).memory_info
        found = _run(session, arguments, lambda: memory().rss >> 20, isolated=not why_not)
        if server.process.poll() is not None:
            print("the server has ended")
            return 1
        return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where findings are kept")
    parser.add_argument("--slow-seconds", type=float, default=5.0, help="a slower answer is a finding (5)")
    parser.add_argument("--keep", action="store_true", help="minimise what is found and write it into the corpus")
    parser.add_argument("--replay", action="store_true", help="only what is in the corpus")
    return parser.parse_args()


def _run(
    session: Session, arguments: argparse.Namespace, megabytes: Callable[[], int], *, isolated: bool
) -> dict[str, Found]:
    """Sends the requests, or those until SIGINT or SIGTERM: a run of a day may be ended early."""
    ended: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: ended.append(number))
    mutator = Mutator(arguments.seed)
    found: dict[str, Found] = {}
    sent, started, said = 0, time.monotonic(), time.monotonic()
    for plan in plans(random.Random(arguments.seed), isolated=isolated):
        for result in play(session, plan, mutator, min(_EPISODE, arguments.requests - sent)):
            sent += result is None
            if result is not None and result.finding.sign not in found:
                found[result.finding.sign] = result
                _show(result)
        if time.monotonic() - said > 30:
            said = time.monotonic()
            print(
                f"{sent} requests, {sent / (said - started):.0f} a second, {len(found)} findings, "
                f"the server has {megabytes()} MB",
                flush=True,
            )
        if sent >= arguments.requests or ended:
            break
    seconds = time.monotonic() - started
    if arguments.keep:
        for result in list(found.values())[:_MAX_MINIMISED]:
            _keep(session, result, arguments.corpus)
    codes = ", ".join(f"{code}: {count}" for code, count in sorted(session.codes.items()))
    print(f"{sent} requests in {seconds:.0f} s, {len(found)} findings; answers {codes}")
    print(f"slowest: {session.slowest[0]:.2f} s {session.slowest[1]}; the server has {megabytes()} MB", flush=True)
    return found


def _show(result: Found) -> None:
    call = result.calls[-1]
    content = call.content() or b""
    print(
        f"-- {result.finding.sign}\n   {result.plan}, request {len(result.calls)}:\n"
        f"   {call.method} {call.target('T')[:400]}\n"
        f"   {dict(call.headers)}\n   {content[:600]!r}\n   {result.finding.detail[-1500:]}",
        flush=True,
    )


def _keep(session: Session, result: Found, corpus: Path) -> None:
    sign = result.finding.sign

    def fails(calls: list[Call]) -> bool:
        return any(finding.sign == sign for finding in replay(session, calls))

    small = minimised(list(result.calls), fails)
    if small is None:
        print(f"-- does not come up again: {sign}")
        return
    corpus.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in sign.lower())[:50].strip("-")
    path = corpus / f"{name}-{hashlib.sha256(sign.encode()).hexdigest()[:6]}.yaml"
    write_entry(path, Entry(sign, small))
    print(f"-- kept as {path.name}: {len(small)} requests", flush=True)


def _replayed(session: Session, paths: list[Path]) -> int:
    failed = 0
    for path in paths:
        for finding in replay(session, read_entry(path).calls):
            failed += 1
            print(f"-- {path.name}: {finding.sign}\n   {finding.detail[-1500:]}")
    print(f"{len(paths)} entries, {failed} findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
