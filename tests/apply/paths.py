"""Paths of fields, and sets of them, for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from registry.apply.fieldsets import FieldSet, single, union

# Sets as plain sets of paths: what the functions must agree with.
some_paths = st.frozensets(
    st.lists(st.sampled_from(["f:a", "f:b", 'v:"x"']), min_size=1, max_size=3).map(tuple), max_size=8
)


def tree(members: frozenset[tuple[str, ...]]) -> FieldSet:
    result: FieldSet = {}
    for path in members:
        result = union(result, single(path))
    return result
