"""Words that the project has retired: what counts as one, and what is beyond its allowance. `make words` checks the files."""

from __future__ import annotations

import pytest

from tools.words import count, excess, lowered

COUNTS = {
    "a word": ("it is told anew", {"told": 1, "anew": 1}),
    "in any case": ("Whoever asks", {"whoever": 1}),
    "a part of a word": ("toldstoy, renewed, judge", {"judged": 1}),
    "a part of a name": ("self._told_at = settle_all()", {"told": 1, "settle": 1}),
    "a name of a test": ("def test_it_is_made_anew_and_is_let_pass():", {"anew": 1, "let pass": 1}),
    "a class": ("Turns; turns", {"Turns": 1}),
    "a function": ("def _asked_again(x):", {"participle": 1}),
    "a local variable": ("    found: list[int] = []\n    found_at = 1", {"local": 1}),
    "a function that only begins like one": ("def askedness(x):", {}),
    "plain English": ("across tenants, in turn, the floor, early, quick", {}),
}


@pytest.mark.parametrize("text, expected", COUNTS.values(), ids=COUNTS)
def test_what_counts(text: str, expected: dict[str, int]) -> None:
    assert count(text) == expected


ALLOWANCES = {
    "as many as allowed": ({"a": 2}, {"a": 2}, {}),
    "fewer": ({"a": 1}, {"a": 2}, {}),
    "more": ({"a": 3}, {"a": 2}, {"a": 2}),
    "a new file": ({"a": 2, "b": 1}, {"a": 2}, {"b": 0}),
    "a file that was moved": ({"b": 2}, {"gone": 2}, {}),
    "a file that was moved, and more": ({"b": 3}, {"gone": 2}, {"b": 0}),
    "a file that was divided": ({"b": 1, "c": 1}, {"gone": 2}, {}),
    "a file that was divided, and more": ({"b": 1, "c": 2}, {"gone": 2}, {"c": 0}),
}


@pytest.mark.parametrize("found, allowed, expected", ALLOWANCES.values(), ids=ALLOWANCES)
def test_what_is_beyond_its_allowance(found: dict[str, int], allowed: dict[str, int], expected: dict[str, int]) -> None:
    there, permitted = ({(file, "told"): number for file, number in each.items()} for each in (found, allowed))
    wrong = excess(there, permitted, found)
    assert wrong == {(file, "told"): number for file, number in expected.items()}
    after = lowered(there, permitted, found)
    assert sum(after.values()) <= sum(allowed.values())
    assert excess(there, after, found).keys() == wrong.keys()
