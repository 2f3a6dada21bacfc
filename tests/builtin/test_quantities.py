"""Quantities are written in one form, whatever form they came in."""

from __future__ import annotations

import pytest

from registry.builtin.quantities import QuantityError, canonical_quantity, is_whole, quantity
from registry.cel.ext.quantity import Quantity

CANONICAL = {
    "a small number": ("3", "3"),
    "a leading zero stays": ("007", "007"),
    "a sign stays": ("+1", "+1"),
    "decimals in a unit of three digits stay": ("1.500", "1.500"),
    "others do not": ("1.50", "1500m"),
    "nor do three zeros": ("1.5000", "1500m"),
    "capital exponents stay": ("1E3", "1E3"),
    "exponents that decimals make up for stay": ("1.5e1", "1.5e1"),
    "a sign of a binary number stays": ("+3Ki", "+3Ki"),
    "zero in any unit": ("0Gi", "0"),
    "a fraction becomes thousandths": ("0.5", "500m"),
    "thousandths become whole": ("1000m", "1"),
    "thousands are written as such": ("120000", "120k"),
    "but not where they are no whole ones": ("1500", "1500"),
    "a unit stays": ("1k", "1k"),
    "binary units rise": ("1024Mi", "1Gi"),
    "and fall where they must": ("1.5Gi", "1536Mi"),
    "a small binary number is decimal": ("0.1Ki", "102400m"),
    "an exponent stays one": ("1e3", "1e3"),
    "in steps of three": ("12e5", "1200e3"),
    "Ei is no exponent": ("1.2Ei", "1383505805528216371200m"),
    "without digits": ("k", "0"),
    "nothing is less than a nano": ("0.1n", "1n"),
    "negative": ("-1500m", "-1500m"),
}


@pytest.mark.parametrize("text, written", CANONICAL.values(), ids=CANONICAL)
def test_the_canonical_form(text: str, written: str) -> None:
    assert canonical_quantity(text) == written


def has_thousandths(text: str) -> bool:
    value = quantity(text)
    return is_whole(Quantity(value.digits, value.scale + 3, value.small))


@pytest.mark.parametrize("text, written", CANONICAL.values(), ids=CANONICAL)
def test_amounts_are_rounded_up_to_thousandths(text: str, written: str) -> None:
    if not has_thousandths(written):
        assert has_thousandths(canonical_quantity(text, in_milli=True))
    else:
        assert canonical_quantity(text, in_milli=True) == written


@pytest.mark.parametrize("text, written", CANONICAL.values(), ids=CANONICAL)
def test_the_canonical_form_is_stable_and_has_the_same_value(text: str, written: str) -> None:
    assert canonical_quantity(written) == written
    if text != "0.1n":  # which is rounded up
        assert quantity(text).compare(quantity(written)) == 0


@pytest.mark.parametrize("text", ["", "many", "1.2.3", "1 k", "1Kx", "0x10", "é", "Ei", "-Pi", ".e-12"])
def test_invalid_quantities(text: str) -> None:
    with pytest.raises(QuantityError, match="quantit"):
        canonical_quantity(text)


WHOLE = {
    "one": ("1", True),
    "a half": ("500m", False),
    "thousands": ("2k", True),
    "two halves": ("1000m", True),
    "binary": ("1Ki", True),
}


@pytest.mark.parametrize("text, whole", WHOLE.values(), ids=WHOLE)
def test_whole_numbers(text: str, whole: bool) -> None:
    assert is_whole(quantity(text)) is whole
