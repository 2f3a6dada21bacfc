"""Whatever clients send: an answer or one of our errors, never another exception, and inputs stay as they are."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.apply.errors import ApplyError
from registry.apply.patches.json_patch import apply_json_patch, decode
from registry.apply.patches.merge_patch import apply_merge_patch, decode_merge_patch
from registry.apply.patches.strategic import apply_strategic
from tests.apply.schemas import SPEC, V1, fields, widget

pytestmark = pytest.mark.slow

NOW = "2026-01-01T00:00:00Z"
FIELDS = fields()

names = st.sampled_from([*SPEC["properties"], "name", "a", "f:a", 'k:{"name":"x"}', 'v:"x"', "x:y", ".", "metadata"])
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.sampled_from(["", "x", "FieldsV1", V1])
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=15
)
entries = st.lists(
    anything
    | st.fixed_dictionaries(
        {},
        optional={
            "manager": scalars,
            "operation": st.sampled_from(["Apply", "Update", "", None]),
            "apiVersion": scalars,
            "fieldsType": st.just("FieldsV1") | scalars,
            "fieldsV1": anything,
            "time": scalars | st.just(NOW),
            "subresource": scalars,
        },
    ),
    max_size=2,
)


@given(anything, anything, entries | anything)
@settings(max_examples=60, deadline=None)
def test_updates(old: Any, new: Any, sent: Any) -> None:
    live = FIELDS.update(None, widget(old, uid="u"), "m", V1, NOW)
    value = widget(new, managedFields=sent)
    inputs = copy.deepcopy((live, value))
    result = FIELDS.update(live, value, "n", V1, NOW)
    FIELDS.update(result, value, "o", V1, NOW)
    assert (live, value) == inputs


@given(anything, anything, entries)
@settings(max_examples=60, deadline=None)
def test_applies(old: Any, applied: Any, sent: Any) -> None:
    live = FIELDS.update(None, widget(old, uid="u"), "m", V1, NOW)
    live = FIELDS.update(live, {**live, "metadata": {**live["metadata"], "managedFields": sent}}, "m", V1, NOW)
    value = widget(applied)
    inputs = copy.deepcopy((live, value))
    for on in (live, None):
        for force in (False, True):
            with contextlib.suppress(ApplyError):
                FIELDS.apply(on, value, "kubectl", V1, NOW, force=force)
    assert (live, value) == inputs


pointers = st.lists(st.sampled_from(["a", "0", "-", "-1", "name", "~0", "x~1y", ""]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
operations = st.lists(
    anything
    | st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "no"]), "path": pointers},
        optional={"from": pointers, "value": anything},
    ),
    max_size=4,
)


@given(anything, operations | anything, st.booleans())
@settings(max_examples=100, deadline=None)
def test_json_patches(document: Any, patch: Any, strict: bool) -> None:
    inputs = copy.deepcopy((document, patch))
    with contextlib.suppress(ApplyError):
        apply_json_patch(document, decode(patch, strict=strict))
    assert (document, patch) == inputs


directives = st.dictionaries(
    st.sampled_from(
        [
            "a",
            "metadata",
            "finalizers",
            "ownerReferences",
            "secrets",
            "uid",
            "$patch",
            "$retainKeys",
            "$setElementOrder/finalizers",
            "$deleteFromPrimitiveList/finalizers",
            "$setElementOrder/ownerReferences",
        ]
    ),
    anything | st.sampled_from(["replace", "delete", ["x"], [{"uid": "x"}], [{"uid": "x", "$patch": "delete"}]]),
    max_size=4,
)


@given(st.dictionaries(names, anything, max_size=3), directives, directives)
@settings(max_examples=100, deadline=None)
def test_other_patches(document: Any, metadata: Any, patch: Any) -> None:
    document = {**document, "metadata": {"finalizers": ["x", "y"], "ownerReferences": [{"uid": "x"}]}}
    patch = {**patch, "metadata": metadata}
    inputs = copy.deepcopy((document, patch))
    with contextlib.suppress(ApplyError):
        apply_strategic("ServiceAccount", document, patch)
    apply_merge_patch(document, decode_merge_patch(patch, strict=True))
    assert (document, patch) == inputs
