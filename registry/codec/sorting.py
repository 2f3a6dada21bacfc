"""Sorts what is large without keeping other threads waiting.

Python's sort runs to its end while it holds the interpreter's lock: 300,000 keys, as many as fit into a body, take it a
tenth of a second, and tuples of them a second, in which the event loop waits although the work is done beside it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Final, TypeVar

Key = TypeVar("Key", str, bytes)
Item = TypeVar("Item")

# Sorted at once: a millisecond.
RUN_LENGTH: Final = 3_000
# Of what is compared less quickly than texts.
_SHORT_RUN: Final = 2_000
# A part that is merged at once has at most the length of a run and this fraction of everything.
_MAX_SAMPLES: Final = 64


def sorted_keys(keys: Collection[Key]) -> Iterable[Key]:
    """The keys, which are distinct, in ascending order."""
    return sorted(keys) if len(keys) <= RUN_LENGTH else _sort(list(keys), RUN_LENGTH)


def sorted_by(items: Sequence[Item], rank: Callable[[Item], Any]) -> list[Item]:
    """As sorted(items, key=rank)."""
    if len(items) <= _SHORT_RUN:
        return sorted(items, key=rank)
    ranked = [(rank(item), position) for position, item in enumerate(items)]
    return [items[position] for _, position in _sort(ranked, _SHORT_RUN)]


def _sort(values: list[Any], run_length: int) -> Iterable[Any]:
    runs = [sorted(values[i : i + run_length]) for i in range(0, len(values), run_length)]
    is_sorted = all(before[-1] < after[0] for before, after in pairwise(runs))
    return chain.from_iterable(runs if is_sorted else _merge(runs))


def _merge(runs: Sequence[list[Any]]) -> Iterator[list[Any]]:
    """Sorts what all runs have between two bounds, and so on. The bounds are samples that lie evenly in each run
    (parallel sorting by regular sampling)."""
    step = -(-len(runs[0]) // min(len(runs), _MAX_SAMPLES))
    samples = sorted(chain.from_iterable(run[::step] for run in runs))
    starts = [0] * len(runs)
    for bound in [*samples[:: -(-len(samples) // len(runs))][1:], None]:
        ends = [len(run) if bound is None else bisect_left(run, bound) for run in runs]
        part = [*chain.from_iterable(run[start:end] for run, start, end in zip(runs, starts, ends, strict=True))]
        part.sort()
        yield part
        starts = ends
