"""Server-side apply: what the object becomes, who owns it, who is in the way."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry.apply.errors import ApplyError, Conflicts, InvalidApply, TypedError
from registry.apply.managed_fields import FieldManager
from tests.apply.schemas import V1, V2, fields, structural, widget

T0, T1, T2 = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z", "2026-01-01T00:00:09Z"

FIELDS = fields(status_versions=[V1])


def apply(
    live: dict[str, Any] | None,
    spec: Any = None,
    manager: str = "a",
    now: str = T1,
    *,
    force: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """The stored object after an apply; inputs are checked to have stayed as they were."""
    applied = widget(spec, **more)
    inputs = copy.deepcopy((live, applied))
    result = FIELDS.apply(live, applied, manager, V1, now, force=force)
    assert (live, applied) == inputs
    return result


def update(live: dict[str, Any], spec: Any, manager: str = "u", now: str = T1, **more: Any) -> dict[str, Any]:
    return FIELDS.update(live, widget(spec, uid="u", **more), manager, V1, now)


def stored(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "metadata": {**value["metadata"], "uid": "u"}}


def owners(value: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in value["metadata"].get("managedFields", [])}


def times(value: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry.get("time") for entry in value["metadata"].get("managedFields", [])}


def conflicts(live: dict[str, Any], spec: Any, manager: str = "b") -> list[tuple[str, str]]:
    with pytest.raises(Conflicts) as caught:
        apply(live, spec, manager)
    return [(conflict.message, conflict.field) for conflict in caught.value.conflicts]


def test_an_apply_creates_an_object_and_owns_its_leaves() -> None:
    made = apply(None, {"size": 1, "frame": {"width": 1}}, labels={"a": "b"})
    assert made["spec"] == {"size": 1, "frame": {"width": 1}}
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "a",
            "operation": "Apply",
            "apiVersion": V1,
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:size": {}, "f:frame": {"f:width": {}}}},
        }
    ]


def test_an_apply_of_nothing_leaves_no_entry() -> None:
    assert "managedFields" not in apply(None)["metadata"]


def test_a_repeated_apply_returns_the_live_object() -> None:
    live = stored(apply(None, {"size": 1, "tags": ["x"], "steps": [], "open": {"a": {}}}))
    assert apply(live, {"size": 1, "tags": ["x"], "steps": [], "open": {"a": {}}}, now=T2) is live


def test_sharing_changes_only_owners_and_has_no_time() -> None:
    live = stored(apply(None, {"size": 1}))
    shared = apply(live, {"size": 1}, "b", T2)
    assert shared["spec"] == live["spec"]
    assert owners(shared) == {"a": {"f:spec": {"f:size": {}}}, "b": {"f:spec": {"f:size": {}}}}
    assert times(shared) == {"a": T1, "b": None}
    assert [entry["manager"] for entry in shared["metadata"]["managedFields"]] == ["b", "a"]


def test_owning_less_keeps_the_time_and_the_value_of_another() -> None:
    live = apply(stored(apply(None, {"size": 1, "color": "x"})), {"size": 1}, "b", T2)
    less = apply(stored(live), {"color": "x"}, "a", T2)
    assert less["spec"] == {"size": 1, "color": "x"}
    assert owners(less) == {"a": {"f:spec": {"f:color": {}}}, "b": {"f:spec": {"f:size": {}}}}
    assert times(less) == {"a": T1, "b": None}


def test_fields_applied_by_another_manager_conflict() -> None:
    live = stored(apply(None, {"size": 1, "color": "x", "frame": {"width": 1}}))
    assert conflicts(live, {"size": 2}) == [('conflict with "a"', ".spec.size")]
    with pytest.raises(Conflicts) as caught:
        apply(live, {"size": 2, "frame": {"width": 2}}, "b")
    assert str(caught.value) == 'Apply failed with 2 conflicts: conflicts with "a":\n- .spec.size\n- .spec.frame.width'


def test_conflicts_with_several_managers_are_in_order() -> None:
    live = stored(apply(stored(apply(None, {"size": 1}, "z")), {"color": "x"}, "b"))
    live = update(live, {**live["spec"], "flag": True}, "u")
    with pytest.raises(Conflicts) as caught:
        apply(live, {"size": 2, "color": "y", "flag": False}, "c")
    assert str(caught.value) == (
        'Apply failed with 3 conflicts: conflicts with "b":\n- .spec.color\n'
        f'conflicts with "u" using {V1}:\n- .spec.flag\nconflicts with "z":\n- .spec.size'
    )


@pytest.mark.parametrize(
    "first, second, path",
    [
        pytest.param(
            {"limits": {"x.y/z": "1"}}, {"limits": {"x.y/z": "2"}}, ".spec.limits.x.y/z", id="a key with dots"
        ),
        pytest.param({"stamp": {"ink": "a"}}, {"stamp": {"pad": "b"}}, ".spec.stamp", id="an atomic map as a whole"),
        pytest.param({"steps": ["a"]}, {"steps": ["b"]}, ".spec.steps", id="an atomic list as a whole"),
        pytest.param(
            {"ports": [{"port": 1, "note": "a"}]},
            {"ports": [{"port": 1, "note": "b"}]},
            '.spec.ports[port=1,proto="tcp"].note',
            id="an item by its keys",
        ),
        pytest.param({"port": "5"}, {"port": 5}, ".spec.port", id="text and number"),
        pytest.param({"color": None}, {"color": "x"}, ".spec.color", id="an owned null"),
    ],
)
def test_conflict_paths(first: Any, second: Any, path: str) -> None:
    assert conflicts(stored(apply(None, first)), second) == [('conflict with "a"', path)]


@pytest.mark.parametrize(
    "first, second",
    [
        pytest.param({"limits": {"a": "1"}}, {"limits": {"b": "1"}}, id="another key"),
        pytest.param({"tags": ["a"]}, {"tags": ["b"]}, id="another item"),
        pytest.param({"rooms": [{"name": "n", "area": 1}]}, {"rooms": [{"name": "n"}]}, id="an item of the other"),
        pytest.param({"size": 1}, {"size": 1.0}, id="the same number"),
        pytest.param({"limits": {"a": "1"}}, {"limits": {}}, id="an empty map"),
    ],
)
def test_no_conflict(first: Any, second: Any) -> None:
    result = apply(stored(apply(None, first)), second, "b")
    assert set(owners(result)) <= {"a", "b"}
    assert owners(result)["a"] == owners(apply(None, first))["a"]


def test_force_takes_over_fields() -> None:
    live = stored(apply(None, {"size": 1, "color": "x"}))
    taken = apply(live, {"size": 2}, "b", T2, force=True)
    assert taken["spec"] == {"size": 2, "color": "x"}
    assert owners(taken) == {"a": {"f:spec": {"f:color": {}}}, "b": {"f:spec": {"f:size": {}}}}
    assert times(taken) == {"a": T1, "b": T2}


@pytest.mark.parametrize(
    "first, second, expected",
    [
        pytest.param({"size": 1, "color": "x"}, {"color": "x"}, {"color": "x"}, id="a scalar"),
        pytest.param({"frame": {"width": 1}, "size": 1}, {"size": 1}, {"size": 1}, id="a map with its last member"),
        pytest.param({"limits": {"a": "1", "b": "2"}}, {"limits": {"a": "1"}}, {"limits": {"a": "1"}}, id="a key"),
        pytest.param({"boxes": {"x": {"a": "1"}}}, {"boxes": {}}, {"boxes": {}}, id="an object in a map"),
        pytest.param({"tags": ["a", "b"]}, {"tags": ["b"]}, {"tags": ["b"]}, id="an item of a set"),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}, {"name": "m"}]},
            {"rooms": [{"name": "n"}]},
            {"rooms": [{"name": "n"}]},
            id="a keyed item, and a member of one",
        ),
        pytest.param(
            {"open": {"a": {"b": 1, "c": 2}}}, {"open": {"a": {"c": 2}}}, {"open": {"a": {"c": 2}}}, id="untyped"
        ),
        pytest.param({"steps": ["a"], "size": 1}, {"size": 1}, {"size": 1}, id="an atomic list"),
        pytest.param({"frame": {}, "size": 1}, {"frame": {"width": 1}}, {"frame": {"width": 1}}, id="a map is filled"),
    ],
)
def test_fields_given_up_by_their_only_owner_are_removed(first: Any, second: Any, expected: Any) -> None:
    assert apply(stored(apply(None, first)), second, now=T2)["spec"] == expected


def test_giving_up_everything_drops_the_spec_and_the_entry() -> None:
    result = apply(stored(apply(None, {"size": 1})), now=T2)
    assert "spec" not in result
    assert "managedFields" not in result["metadata"]


def test_fields_owned_by_an_update_are_kept() -> None:
    live = update(stored(apply(None, {"frame": {"width": 1}})), {"frame": {"width": 1, "height": 2}})
    assert apply(live, {"size": 1}, now=T2)["spec"] == {"frame": {"height": 2}, "size": 1}


def test_an_empty_map_is_kept_while_it_has_an_owner() -> None:
    live = apply(stored(apply(None, {"limits": {"a": "1"}})), {"limits": {}}, "b")
    assert apply(stored(live), {}, now=T2)["spec"] == {"limits": {}}


def test_a_keyed_item_is_kept_while_another_manager_owns_part_of_it() -> None:
    live = apply(stored(apply(None, {"rooms": [{"name": "n", "area": 1}]})), {"rooms": [{"name": "n"}]}, "b")
    assert apply(stored(live), {}, now=T2)["spec"] == {"rooms": [{"name": "n"}]}


def test_unowned_fields_are_removed_with_their_item_but_not_with_a_map() -> None:
    """What a server's default filled in goes with an item, and stays in a map that somebody still holds."""
    live = stored(apply(None, {"ports": [{"port": 1}], "frame": {"width": 1}}))
    live["spec"]["ports"][0]["proto"] = "tcp"
    live["spec"]["frame"]["height"] = 7
    result = apply(live, {"size": 1}, now=T2)
    assert result["spec"] == {"size": 1}
    kept = apply(live, {"frame": {}, "ports": []}, now=T2)
    assert kept["spec"] == {"frame": {"height": 7}}


def test_the_first_apply_takes_over_fields_set_before_tracking() -> None:
    live = widget({"size": 1, "frame": {"width": 1}}, status={"phase": "x"}, uid="u", labels={"a": "b"})
    result = apply(live, {"color": "x"}, now=T2)
    assert owners(result) == {
        "a": {"f:spec": {"f:color": {}}},
        "before-first-apply": {
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {".": {}, "f:size": {}, "f:frame": {".": {}, "f:width": {}}},
        },
    }
    assert conflicts(live, {"size": 2}, "a") == [(f'conflict with "before-first-apply" using {V1}', ".spec.size")]


def test_the_status_belongs_to_its_path() -> None:
    live = stored(apply(None, {"size": 1}, status={"phase": "x"}))
    assert owners(live) == {"a": {"f:spec": {"f:size": {}}}}
    applied = widget({"size": 9}, status={"phase": "y"}, labels={"a": "b"})
    result = FIELDS.apply(live, applied, "s", V1, T2, subresource="status")
    assert owners(result)["s"] == {"f:status": {"f:phase": {}}}
    with pytest.raises(Conflicts, match=r'conflict with "s" with subresource "status": .status.phase'):
        FIELDS.apply(stored(result), widget(status={"phase": "z"}), "t", V1, T2, subresource="status")


@pytest.mark.parametrize(
    "applied, error, message",
    [
        pytest.param(
            {"apiVersion": V1, "kind": "Other"}, InvalidApply, f"invalid object type: {V1}, Kind=Other", id="kind"
        ),
        pytest.param(
            {"apiVersion": V2, "kind": "Widget"}, InvalidApply, f"invalid object type: {V2}, Kind=Widget", id="v"
        ),
        pytest.param({"apiVersion": "v1", "kind": "X"}, InvalidApply, "invalid object type: /v1, Kind=X", id="core"),
        pytest.param({}, InvalidApply, "invalid object type: /, Kind=", id="nothing"),
        pytest.param(widget(managedFields=[]), InvalidApply, "metadata.managedFields must be nil", id="entries"),
        pytest.param(
            widget({"no": 1}, namespace="n"),
            TypedError,
            f"failed to create typed patch object (n/a; {V1}, Kind=Widget): .spec.no: field not declared in schema",
            id="unknown field",
        ),
        pytest.param(
            {**widget(), "metadata": "x"},
            TypedError,
            f"failed to create typed patch object (/; {V1}, Kind=Widget): .metadata: expected map, got &{{x}}",
            id="metadata of a wrong type",
        ),
    ],
)
def test_refused(applied: dict[str, Any], error: type[ApplyError], message: str) -> None:
    with pytest.raises(error) as caught:
        FIELDS.apply(None, applied, "a", V1, T0)
    assert str(caught.value) == message


def test_null_entries_are_ignored() -> None:
    assert owners(apply(None, {"size": 1}, managedFields=None)) == {"a": {"f:spec": {"f:size": {}}}}


def test_a_live_object_that_does_not_fit_is_reported() -> None:
    live = stored(apply(None, {"rooms": [{"name": "n"}]}))
    live["spec"]["rooms"][0].pop("name")
    with pytest.raises(TypedError, match=r"failed to create typed live object \(/a; .*\): .spec.rooms: element 0: "):
        apply(live, {"rooms": [{"name": "m"}]}, now=T2)


# Versions

OLD = structural()
NEW = structural(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "shape": {"type": "string"}}}
        },
    }
)
BOTH = FieldManager("Widget", {V1: lambda: OLD, V2: lambda: NEW})


def test_an_applier_has_one_entry_which_follows_its_version() -> None:
    live = stored(BOTH.apply(None, widget({"size": 1}), "a", V1, T0))
    result = BOTH.apply({**live, "apiVersion": V2}, widget({"size": 2}, version=V2), "a", V2, T1)
    assert [(e["apiVersion"], e["time"], e["fieldsV1"]) for e in result["metadata"]["managedFields"]] == [
        (V2, T1, {"f:spec": {"f:size": {}}})
    ]


def test_fields_applied_at_another_version_can_be_given_up() -> None:
    live = stored(BOTH.apply(None, widget({"size": 1}), "a", V1, T0))
    assert "spec" not in BOTH.apply({**live, "apiVersion": V2}, widget(version=V2), "a", V2, T1)


def test_a_field_missing_in_the_version_of_another_owner_is_reported() -> None:
    live = stored(BOTH.apply(None, widget({"size": 1}, version=V2), "b", V2, T0))
    with pytest.raises(TypedError) as caught:
        BOTH.apply({**live, "apiVersion": V1}, widget({"color": "x"}), "a", V1, T1)
    assert str(caught.value) == "failed to convert new object: .spec.color: field not declared in schema"


def test_a_live_object_that_does_not_fit_the_version_of_another_owner_is_reported_first() -> None:
    live = stored(BOTH.apply(None, widget({"size": 1}, version=V2), "b", V2, T0))
    live = {**live, "apiVersion": V1, "spec": {"size": 1, "color": "x"}}
    with pytest.raises(TypedError) as caught:
        BOTH.apply(live, widget({"color": "y"}), "a", V1, T1)
    assert str(caught.value) == ".spec.color: field not declared in schema"


def test_a_live_object_that_does_not_fit_is_reported_before_owners_at_another_version() -> None:
    live = stored(BOTH.apply(None, widget({"size": 1}, version=V2), "b", V2, T0))
    live = {**live, "apiVersion": V1, "spec": {"size": "x"}}
    with pytest.raises(TypedError) as caught:
        BOTH.apply(live, widget({"color": "x"}), "a", V1, T1)
    assert str(caught.value) == (
        f"failed to create typed live object (/a; {V1}, Kind=Widget): "
        ".spec.size: expected numeric (int or float), got string"
    )


def test_a_removed_version_is_reported() -> None:
    live = stored(BOTH.apply(None, widget({"size": 1}), "a", V1, T0))
    live["metadata"]["managedFields"][0]["apiVersion"] = "example.com/v0"
    with pytest.raises(TypedError) as caught:
        BOTH.apply(live, widget({"size": 1}), "b", V1, T1)
    assert str(caught.value) == "request to convert CR to an invalid group/version: example.com/v0"


def test_a_list_that_became_atomic_is_owned_as_a_whole() -> None:
    def schema(kind: str) -> Any:
        return structural(
            {
                "type": "object",
                "properties": {
                    "spec": {
                        "type": "object",
                        "properties": {
                            "l": {"type": "array", "x-kubernetes-list-type": kind, "items": {"type": "string"}}
                        },
                    }
                },
            }
        )

    was, now = schema("set"), schema("atomic")
    live = stored(FieldManager("Widget", {V1: lambda: was}).apply(None, widget({"l": ["x"]}), "a", V1, T0))
    manager = FieldManager("Widget", {V1: lambda: now})
    with pytest.raises(Conflicts, match=r'conflict with "a": .spec.l'):
        manager.apply(live, widget({"l": ["y"]}), "b", V1, T1)
    assert owners(manager.apply(live, widget(labels={"a": "b"}), "b", V1, T1))["a"] == {"f:spec": {"f:l": {}}}


@pytest.mark.parametrize("force", [False, True])
def test_owners_of_another_version_keep_what_a_subresource_ignores(force: bool) -> None:
    schema = structural()
    both = FieldManager("Widget", {V1: lambda: schema, V2: lambda: schema}, status_versions=[V1, V2])
    live = stored(both.apply(None, {**widget({"size": 1}), "apiVersion": V2}, "other", V2, T1))
    live = {**live, "apiVersion": V1}
    result = both.apply(
        live, widget({"size": 2}, status={"phase": "x"}), "s", V1, T2, subresource="status", force=force
    )
    assert owners(result) == {"other": {"f:spec": {"f:size": {}}}, "s": {"f:status": {"f:phase": {}}}}
