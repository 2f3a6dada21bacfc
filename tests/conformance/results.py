"""Results of a replay, and the list of known failures: one case per line, by name, never growing."""

from __future__ import annotations

import argparse
import concurrent.futures
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

LEVELS = ("semantic", "verbatim")

HEAD = """\
# Recorded exchanges that are known to be answered differently: one case a line, `<file>::<case> [<level>]`.
# A case here that passes fails the run, and so does a failing case that is not here.
# `python -m {module} --update` takes off what passes.
"""


@dataclass
class Result:
    """A file's replay: each case as 'rest/get.yaml::a step [semantic]', with its differences, if any."""

    differences: dict[str, list[str]] = field(default_factory=dict)

    @property
    def failed(self) -> set[str]:
        return {case for case, found in self.differences.items() if found}

    def count(self, level: str) -> tuple[int, int]:
        """How many cases of a level passed, of how many."""
        of_level = {case for case in self.differences if case.endswith(f"[{level}]")}
        return len(of_level - self.failed), len(of_level)


class CaseNames:
    """Names of the cases of a file; those of the same name are numbered from the second on."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._seen: Counter[str] = Counter()

    def next(self, text: str) -> str:
        text = " ".join(text.split())
        self._seen[text] += 1
        return f"{self._file}::{text}" + (f" #{self._seen[text]}" if self._seen[text] > 1 else "")


def read(path: Path) -> frozenset[str]:
    return frozenset(line for line in path.read_text().splitlines() if line and not line.startswith("#"))


def timing() -> frozenset[str]:
    """Cases whose answer depends on how soon a controller acts, from timing.txt: either answer is right."""
    lines = (Path(__file__).parent / "timing.txt").read_text().splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def _is_timing(case: str, timed: frozenset[str]) -> bool:
    """`case` with its level; those of timing.txt have none."""
    return case.rpartition(" [")[0] in timed


def updated(known: frozenset[str], compared: set[str], failed: set[str], *, allow_new: bool) -> set[str]:
    """The new list: known cases that still fail, or whose file was not replayed; new ones where allowed.

    A case that exists no longer (its file was recorded again) goes too.
    """
    replayed = {case.partition("::")[0] for case in compared}
    kept = {case for case in known if case in failed or case.partition("::")[0] not in replayed}
    return kept | (failed if allow_new else set())


def problems(result: Result, known: Iterable[str], module: str) -> list[str]:
    """What a test run has to say about a file: failures that are not known, and known ones that pass."""
    timed = timing()
    known = {case for case in known if not _is_timing(case, timed)}
    unknown = sorted(case for case in result.failed - known if not _is_timing(case, timed))
    return ["\n     ".join([f"fails: {case}", *result.differences[case][:12]]) for case in unknown] + [
        f"passes, or is gone, so take it off the list (python -m {module} --update): {case}"
        for case in sorted(known - result.failed)
    ]


def update_command(
    module: str, path: Path, names: list[str], replay: Callable[[str], Result], *, jobs: int, documentation: str
) -> int:
    """The command that keeps a list; `names` are the files to replay where none is named."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}", description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--update", action="store_true", help="write the list; else only say what would change")
    parser.add_argument("--allow-new", action="store_true", help="also put on what fails now")
    parser.add_argument("--jobs", type=int, default=jobs)
    parser.add_argument("files", nargs="*", help="all by default")
    arguments = parser.parse_args()
    compared: set[str] = set()
    failed: set[str] = set()
    timed = timing()
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for result in pool.map(replay, arguments.files or names):
            compared |= result.differences.keys()
            failed |= {case for case in result.failed if not _is_timing(case, timed)}
    known = read(path)
    new = updated(known, compared, failed, allow_new=arguments.allow_new)
    for case in sorted(known - new):
        print(f"off  {case}")
    for case in sorted(failed - known):
        print(f"{'on ' if arguments.allow_new else 'NEW'}  {case}")
    if arguments.update:
        path.write_text(HEAD.format(module=module) + "".join(f"{case}\n" for case in sorted(new)))
    print(f"{len(compared)} comparisons, {len(failed)} failed; known before {len(known)}, now {len(new)}")
    return 0 if failed <= new else 1
