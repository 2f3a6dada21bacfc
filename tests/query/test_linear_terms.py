"""Terms and names that are read in one call of C code, in which no other thread runs."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.query import clusterpedia
from registry.query.fields import split
from registry.query.indexes import _PART
from registry.query.reserved import ReservedError, split_reserved
from registry.reporting.marking import paths
from registry.reporting.names import snake


@pytest.mark.parametrize("end", ["(", "=(", "b(", "in("])
def test_blanks_before_what_does_not_match(end: str) -> None:
    """A thousand took three seconds."""
    started = time.process_time()
    with pytest.raises(ReservedError):
        split_reserved("query.registry/count=" + " " * 900 + end)
    with pytest.raises(ReservedError):
        clusterpedia.split("search.clusterpedia.io/names=" + " " * 900 + end)
    assert time.process_time() - started < 0.1


def test_blanks_around_values_do_not_count() -> None:
    found = split_reserved(" query.registry/count =  exact  ,query.registry/order-by in ( a , b_desc ) , a=b")
    assert (found.count, found.order_by, found.selector.strip()) == ("exact", "a,b desc", "a=b")


def test_long_runs_are_read_once() -> None:
    started = time.process_time()
    assert snake("A" * 100_000) == "a" * 100_000
    match = _PART.fullmatch("x" + " " * 100_000 + "y")
    assert match is not None
    assert match[2] is None
    assert paths(".a]" + "[" * 100_000) == (("a]" + "[" * 100_000,),)
    assert time.process_time() - started < 1


@given(st.text("a,;[]' "), st.sampled_from(",;"))
def test_separators_inside_of_brackets_do_not_split(text: str, separator: str) -> None:
    assert split(text, separator) == re.split(rf"{separator}(?![^\[]*\])", text)


def test_many_separators_are_read_once() -> None:
    """20,000 took 0.7 s."""
    started = time.process_time()
    assert split("a," * 100_000, ",") == ["a"] * 100_000 + [""]
    assert time.process_time() - started < 1
