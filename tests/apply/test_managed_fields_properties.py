"""What must hold for any object: applying twice is applying once, entries say what is there, nobody loses anything."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.apply.compare import changes
from registry.apply.fieldsets import difference, intersection, union
from registry.apply.fieldtexts import paths, read
from registry.apply.merge import merge
from registry.apply.objects import is_unchanged
from registry.apply.owned import field_set, fields_within, with_named
from registry.apply.validate import validate
from tests.apply.schemas import V1, fields, spec_type, type_of, widget

pytestmark = pytest.mark.slow

FIELDS = fields()
SPEC = spec_type()
NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"

text = st.sampled_from(["a", "b", "<é>"])
number = st.integers(0, 3)
untyped = st.recursive(
    text | number | st.booleans(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(text, inner, max_size=2),
    max_leaves=5,
)


def unique(items: st.SearchStrategy[dict[str, Any]], *keys: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(items, max_size=3, unique_by=lambda item: tuple(str(item.get(key, "tcp")) for key in keys))


specs = st.fixed_dictionaries(
    {},
    optional={
        "color": text,
        "size": number,
        "flag": st.booleans(),
        "port": text | number,
        "steps": st.lists(text, max_size=3),
        "frame": st.fixed_dictionaries({}, optional={"width": number, "height": number}),
        "stamp": st.fixed_dictionaries({}, optional={"ink": text, "pad": text}),
        "limits": st.dictionaries(text, text, max_size=3),
        "boxes": st.dictionaries(text, st.fixed_dictionaries({}, optional={"a": text, "b": text}), max_size=2),
        "tags": st.lists(text, max_size=3, unique=True),
        "rooms": unique(st.fixed_dictionaries({"name": text}, optional={"area": number}), "name"),
        "ports": unique(
            st.fixed_dictionaries({"port": number}, optional={"proto": text, "note": text}), "port", "proto"
        ),
        "open": st.dictionaries(text, untyped, max_size=3),
        "free": st.dictionaries(text, untyped, max_size=2),
    },
)


def stored(value: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy({**value, "metadata": {**value["metadata"], "uid": "u"}})


def owned(value: dict[str, Any]) -> Any:
    result: dict[str, Any] = {}
    for entry in value["metadata"].get("managedFields", []):
        result = union(result, entry["fieldsV1"])
    return result


@given(specs, specs)
@settings(max_examples=40, deadline=None)
def test_applying_is_idempotent(first: Any, second: Any) -> None:
    live = stored(FIELDS.apply(None, widget(first), "a", V1, NOW))
    once = stored(FIELDS.apply(live, widget(second), "b", V1, LATER, force=True))
    assert FIELDS.apply(once, widget(second), "b", V1, LATER) is once


@given(specs)
@settings(max_examples=40, deadline=None)
def test_applying_existing_values_changes_no_value(spec: Any) -> None:
    live = stored(FIELDS.update(None, widget(spec), "u", V1, NOW))
    shared = FIELDS.apply(live, widget(spec), "a", V1, LATER)
    assert shared.get("spec") == live.get("spec")
    assert all(
        "time" not in entry for entry in shared["metadata"].get("managedFields", ()) if entry["operation"] == "Apply"
    )


@given(specs, specs)
@settings(max_examples=40, deadline=None)
def test_a_sole_applier_has_what_it_last_applied(first: Any, second: Any) -> None:
    """Save for empty sets and keyed lists: those are nobody's, and stay as they were found."""
    first, second = {**first, "color": "a"}, {**second, "color": "a"}  # else nobody may be tracked at all
    live = stored(FIELDS.apply(None, widget(first), "a", V1, NOW))
    result = FIELDS.apply(live, widget(second), "a", V1, LATER)
    fresh = FIELDS.apply(None, widget(second), "a", V1, LATER)
    assert field_set(result.get("spec") or {}, SPEC) == field_set(fresh.get("spec") or {}, SPEC)
    assert owned(result) == owned(fresh)


@given(specs, specs, specs)
@settings(max_examples=40, deadline=None)
def test_managers_keep_fields_when_another_applies_or_gives_up(mine: Any, first: Any, second: Any) -> None:
    live = stored(FIELDS.apply(None, widget(mine), "me", V1, NOW))
    live = stored(FIELDS.apply(live, widget(first), "b", V1, NOW, force=True))
    kept = {entry["manager"]: entry["fieldsV1"] for entry in live["metadata"].get("managedFields", [])}.get("me", {})
    result = FIELDS.apply(live, widget(second), "b", V1, LATER, force=True)
    still = {entry["manager"]: entry["fieldsV1"] for entry in result["metadata"].get("managedFields", [])}.get("me", {})
    here = fields_within({"spec": result.get("spec") or {}}, type_of())
    # What I still own is there, and what I lost has another value now or is b's as a whole.
    assert not difference(still, with_named(here, type_of()))
    assert not difference(
        difference(kept, still),
        union(changes(live, result, type_of()).changed, changes(live, result, type_of()).removed),
    )


@given(specs, specs)
@settings(max_examples=40, deadline=None)
def test_an_update_owns_exactly_what_changes(old: Any, new: Any) -> None:
    live = stored(FIELDS.update(None, widget(old), "a", V1, NOW))
    result = FIELDS.update(live, {**live, "spec": new}, "b", V1, LATER)
    entries = {entry["manager"]: entry["fieldsV1"] for entry in result["metadata"].get("managedFields", [])}
    found = changes(live, result, type_of())
    changed = {name: node for name, node in found.changed.items() if name == "f:spec"}
    assert entries.get("b", {}) == (changed if live["metadata"].get("managedFields") else {})
    assert not intersection(entries.get("a", {}), union(changed, found.removed))
    assert (not changed and not found.removed) == is_unchanged({**live, "spec": old}, {**result, "spec": old})


@given(specs, specs)
@settings(max_examples=40, deadline=None)
def test_a_merge_has_the_fields_of_both_objects(live: Any, applied: Any) -> None:
    inputs = copy.deepcopy((live, applied))
    merged = merge(live, applied, SPEC)
    assert (live, applied) == inputs
    assert validate({"spec": merged}, type_of()) == []
    assert not changes(merged, merge(merged, applied, SPEC), SPEC).changed
    assert not difference(field_set(applied, SPEC), union(with_named(fields_within(merged, SPEC), SPEC), {}))


@given(specs)
@settings(max_examples=40, deadline=None)
def test_entries_round_trip(spec: Any) -> None:
    for fields_ in (field_set(spec, SPEC), fields_within(spec, SPEC)):
        assert read(fields_) == fields_
        assert len(list(paths(fields_))) == len(set(paths(fields_)))
