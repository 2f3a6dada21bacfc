"""Objects ten thousand levels deep, as preserved fields may be: nothing recurses with the value."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.errors import Conflicts
from registry.apply.fieldtexts import paths
from registry.apply.managed_fields import LAST_APPLIED
from registry.apply.objects import is_unchanged
from registry.apply.types import UNTYPED_DEPTH
from tests.apply.schemas import V1, fields, widget

NOW = "2026-01-01T00:00:00Z"
FIELDS = fields()


def deep(leaf: Any, *, lists: bool = False) -> Any:
    value = leaf
    for level in range(10_000):
        value = [value] if lists and level % 2 == 0 else {"a": value}
    return {"open": value}


def test_ownership_ends_at_a_depth() -> None:
    made = FIELDS.update(None, widget(deep(1)), "m", V1, NOW)
    owned = made["metadata"]["managedFields"][0]["fieldsV1"]
    assert max(map(len, paths(owned))) == UNTYPED_DEPTH + 3


@pytest.mark.parametrize("lists", [False, True])
def test_every_write(lists: bool) -> None:
    live = FIELDS.update(None, widget(deep(1, lists=lists)), "m", V1, NOW)
    live["metadata"]["uid"] = "u"
    same = FIELDS.update(live, {**live, "spec": deep(1, lists=lists)}, "n", V1, NOW)
    assert is_unchanged(live, same)
    changed = FIELDS.update(live, {**live, "spec": deep(2, lists=lists)}, "n", V1, NOW)
    assert [entry["manager"] for entry in changed["metadata"]["managedFields"]] == ["m", "n"]
    with pytest.raises(Conflicts):
        FIELDS.apply(live, widget(deep(2, lists=lists)), "a", V1, NOW)
    applied = FIELDS.apply(live, widget(deep(2, lists=lists)), "a", V1, NOW, force=True)
    assert FIELDS.apply(applied, widget(deep(2, lists=lists)), "a", V1, NOW) is applied
    assert FIELDS.apply(applied, widget({"size": 1}), "a", V1, NOW)["spec"]["size"] == 1


def test_kubectls_annotation() -> None:
    live = FIELDS.update(None, widget({"size": 1}, annotations={LAST_APPLIED: "{}"}, uid="u"), "m", V1, NOW)
    result = FIELDS.apply(live, widget(deep(1)), "kubectl", V1, NOW)
    assert result["metadata"]["annotations"][LAST_APPLIED] != "{}"
