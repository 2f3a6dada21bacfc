"""What Hypothesis makes up: values as JSON has them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(max_size=12)  # without surrogates, as all of Hypothesis' texts
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def json_values(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
    )


def as_written(value: Any) -> Any:
    """What is read back of a value that has been written: whole floats by their shortest digits, as Go writes them."""
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_written(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(Decimal(repr(value)))
    return value


JSON_VALUES = json_values(st.none() | st.booleans() | INTEGERS | FLOATS | TEXT)
