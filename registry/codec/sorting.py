"""Sorts the keys of large maps without keeping other threads waiting.

Python's sort runs to its end while it holds the interpreter's lock: 300,000 keys, as many as fit into a body, take it a
tenth of a second, in which the event loop waits although the work is done beside it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Final, TypeVar

Key = TypeVar("Key", str, bytes)

# Sorted at once: some three milliseconds.
RUN_LENGTH: Final = 10_000


def sorted_keys(keys: Collection[Key]) -> Iterable[Key]:
    """The keys, which are different, in their order."""
    if len(keys) <= RUN_LENGTH:
        return sorted(keys)
    every = list(keys)
    runs = [sorted(every[i : i + RUN_LENGTH]) for i in range(0, len(every), RUN_LENGTH)]
    if all(before[-1] < after[0] for before, after in pairwise(runs)):
        return chain.from_iterable(runs)
    return _merge(runs)


def _merge(runs: Sequence[list[Any]]) -> Iterator[Any]:
    """Sorts what all runs have between two bounds, and so on. The bounds are samples that lie evenly in each run, so
    that no more than twice the length of a run is between two of them (parallel sorting by regular sampling)."""
    samples = sorted(chain.from_iterable(run[:: RUN_LENGTH // len(runs) or 1] for run in runs))
    starts = [0] * len(runs)
    for bound in [*samples[len(runs) :: len(runs)], None]:
        ends = [len(run) if bound is None else bisect_left(run, bound) for run in runs]
        part = [*chain.from_iterable(run[start:end] for run, start, end in zip(runs, starts, ends, strict=True))]
        part.sort()
        yield from part
        starts = ends
