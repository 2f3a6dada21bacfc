"""Updates and applies through the scale subresource."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.errors import Conflicts, InvalidApply, TypedError
from registry.apply.scale import Applier, apply_scale, own_scale_update
from tests.apply.schemas import V1, fields, widget

T0, T1 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"
FIELDS = fields()


def scale(replicas: Any = 5, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": replicas},
        **more,
    }


def live() -> dict[str, Any]:
    made = FIELDS.apply(None, widget({"size": 1, "color": "x"}), "a", V1, T0)
    made["metadata"]["uid"] = "u"
    return made


def run(applied: dict[str, Any], on: dict[str, Any] | None = None, *, force: bool = False) -> dict[str, Any]:
    return apply_scale(FIELDS, on or live(), applied, ".spec.size", Applier("s", V1, T1), force=force)


def test_replicas_of_another_owner_conflict() -> None:
    with pytest.raises(Conflicts) as caught:
        run(scale())
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "a": .spec.replicas'


@pytest.mark.parametrize("subresource, text", [("", '"u"'), ("scale", '"u" with subresource "scale"')])
def test_the_version_of_an_owner_by_update_is_that_of_the_scale(subresource: str, text: str) -> None:
    owned = FIELDS.update(live(), {**live(), "spec": {"size": 2, "color": "x"}}, "u", V1, T0, subresource)
    with pytest.raises(Conflicts) as caught:
        run(scale(), owned)
    [conflict] = caught.value.conflicts
    assert conflict.message == f"conflict with {text} using autoscaling/v1"


def test_force_takes_the_replicas_and_nothing_else() -> None:
    result = run(scale(metadata={"name": "a", "labels": {"x": "y"}}), force=True)
    assert result["spec"] == {"size": 5, "color": "x"}
    assert "labels" not in result["metadata"]
    assert [(e["manager"], e.get("subresource"), e["fieldsV1"]) for e in result["metadata"]["managedFields"]] == [
        ("a", None, {"f:spec": {"f:color": {}}}),
        ("s", "scale", {"f:spec": {"f:size": {}}}),
    ]
    assert run(scale(), result) is result


def test_replicas_can_be_given_up() -> None:
    taken = run(scale(), force=True)
    assert run(scale(spec={}), taken)["spec"] == {"color": "x"}


@pytest.mark.parametrize(
    "applied, error, message",
    [
        pytest.param(widget({"size": 3}), InvalidApply, f"invalid object type: {V1}, Kind=Widget", id="another kind"),
        pytest.param(
            scale(metadata={"managedFields": []}), InvalidApply, "metadata.managedFields must be nil", id="entries"
        ),
        pytest.param(
            scale("x"),
            TypedError,
            "failed to create typed patch object (/a; autoscaling/v1, Kind=Scale): "
            ".spec.replicas: expected numeric (int or float), got string",
            id="wrong type",
        ),
    ],
)
def test_refused(applied: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        run(applied)
    assert str(caught.value) == message


def entries(value: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (entry["manager"], entry["operation"], entry.get("subresource"), entry.get("time"), entry["fieldsV1"])
        for entry in value["metadata"].get("managedFields", [])
    ]


def test_an_update_takes_the_replicas_from_their_owners() -> None:
    old = FIELDS.update(live(), {**live(), "spec": {"size": 1, "color": "x", "flag": True}}, "m", V1, T1)
    new = {**old, "spec": {**old["spec"], "size": 7}}
    result = own_scale_update(old, new, {V1: ".spec.size"}, "s", V1)
    assert result["spec"] == new["spec"]
    assert entries(result) == [
        ("a", "Apply", None, T0, {"f:spec": {"f:color": {}}}),
        ("s", "Update", "scale", None, {"f:spec": {"f:size": {}}}),
        ("m", "Update", None, T1, {"f:spec": {"f:flag": {}}}),
    ]
    again = own_scale_update(result, {**result, "spec": {**result["spec"], "size": 8}}, {V1: ".spec.size"}, "t", V1)
    assert [entry[0] for entry in entries(again)] == ["a", "t", "m"]


def test_unowned_replicas_stay_unowned() -> None:
    old = FIELDS.apply(None, widget({"color": "x"}), "a", V1, T0)
    result = own_scale_update(old, {**old, "spec": {"color": "x", "size": 7}}, {V1: ".spec.size"}, "s", V1)
    assert entries(result) == entries(old)


def test_replicas_that_stay_the_same_stay_owned() -> None:
    old = live()
    assert entries(own_scale_update(old, old, {V1: ".spec.size"}, "s", V1)) == entries(old)
