"""kubectl taking over what its own client-side apply has made."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.apply.errors import Conflicts
from registry.apply.managed_fields import LAST_APPLIED, MAX_ANNOTATIONS_BYTES
from tests.apply.schemas import V1, fields, widget

T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"
FIELDS = fields()


def by_client(spec: Any, annotation: Any = None) -> dict[str, Any]:
    """An object of client-side apply; `annotation` stands in for what it would be."""
    text = json.dumps(widget(spec)) if annotation is None else annotation
    value = widget(spec, annotations={LAST_APPLIED: text}, uid="u")
    return FIELDS.update(None, value, "kubectl-client-side-apply", V1, T0)


def annotation_of(value: dict[str, Any]) -> Any:
    return json.loads(value["metadata"]["annotations"][LAST_APPLIED])


def test_kubectl_takes_over_and_rewrites_the_annotation() -> None:
    live = by_client({"size": 1, "color": "<red>"})
    result = FIELDS.apply(live, widget({"size": 2, "color": "<red>"}), "kubectl", V1, T1)
    assert result["spec"] == {"size": 2, "color": "<red>"}
    assert result["metadata"]["annotations"][LAST_APPLIED] == (
        f'{{"apiVersion":"{V1}","kind":"Widget","metadata":{{"name":"a"}},'
        '"spec":{"color":"\\u003cred\\u003e","size":2}}\n'
    )


def test_fields_of_other_managers_conflict() -> None:
    with pytest.raises(Conflicts, match=r'"kubectl-client-side-apply" using example.com/v1: .spec.size'):
        FIELDS.apply(by_client({"size": 1}), widget({"size": 2}), "other", V1, T1)


def test_fields_missing_in_the_annotation_or_changed_since_conflict() -> None:
    live = by_client({"size": 1, "color": "x"})
    live = FIELDS.update(live, {**live, "spec": {"size": 5, "color": "x", "flag": True}}, "someone", V1, T0)
    with pytest.raises(Conflicts) as caught:
        FIELDS.apply(live, widget({"size": 2, "color": "y", "flag": False}), "kubectl", V1, T1)
    assert [conflict.field for conflict in caught.value.conflicts] == [".spec.flag", ".spec.size"]


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param("{broken", id="broken"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="empty"),
        pytest.param(json.dumps(widget({"size": 1}, version="example.com/v9")), id="another version"),
        pytest.param(json.dumps(widget({"no": 1})), id="an unknown field"),
        pytest.param("[" * 5000, id="deep"),
    ],
)
def test_an_unusable_annotation_is_ignored(annotation: str) -> None:
    with pytest.raises(Conflicts):
        FIELDS.apply(by_client({"size": 1}, annotation), widget({"size": 2}), "kubectl", V1, T1)


def test_other_annotations_are_kept_in_the_annotation() -> None:
    live = by_client({"size": 1})
    applied = widget({"size": 1}, annotations={"x": "y"})
    result = FIELDS.apply(live, applied, "kubectl", V1, T1)
    assert annotation_of(result)["metadata"] == {"name": "a", "annotations": {"x": "y"}}
    assert result["metadata"]["annotations"]["x"] == "y"


def test_an_annotation_beyond_the_limit_is_removed() -> None:
    live = by_client({"size": 1})
    result = FIELDS.apply(live, widget({"color": "x" * MAX_ANNOTATIONS_BYTES}), "kubectl", V1, T1)
    assert result["metadata"]["annotations"] == {}


def test_no_annotation_is_added() -> None:
    live = FIELDS.apply(None, widget({"size": 1}), "kubectl", V1, T0)
    assert "annotations" not in FIELDS.apply(live, widget({"size": 2}), "kubectl", V1, T1)["metadata"]


def test_a_repeated_apply_returns_the_live_object() -> None:
    live = FIELDS.apply(by_client({"size": 1}), widget({"size": 1}), "kubectl", V1, T1)
    assert FIELDS.apply(live, widget({"size": 1}), "kubectl", V1, T1) is live
