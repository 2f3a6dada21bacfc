"""managedFields after creates, updates and patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from registry.apply.errors import ConversionFailed
from registry.apply.managed_fields import FieldManager
from registry.apply.objects import is_unchanged
from registry.builtin.structs import CORE
from registry.codec.structs.structs import Struct, zero_members
from registry.definitions.types import CustomResourceDefinition
from tests.apply.schemas import V1, V2, fields, structural, widget

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:05Z"


def created(spec: Any = None, manager: str = "m", **more: Any) -> dict[str, Any]:
    result = fields().update(None, widget(spec, **more), manager, V1, NOW)
    result["metadata"]["uid"] = "u"
    return result


def entries(value: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in value["metadata"].get("managedFields", [])}


def test_a_create_owns_all_that_it_sets() -> None:
    made = created({"size": 1, "frame": {"width": 1}}, labels={"a": "b"}, creationTimestamp=None, uid="u", generation=1)
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": V1,
            "time": NOW,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
                "f:spec": {".": {}, "f:size": {}, "f:frame": {".": {}, "f:width": {}}},
            },
        }
    ]


def test_a_create_of_nothing_has_no_entries() -> None:
    assert "managedFields" not in created()["metadata"]


def test_a_create_ignores_the_entries_of_the_client() -> None:
    assert entries(created({"size": 1}, managedFields=[{"manager": "x"}, 5])) == {
        "m": {"f:spec": {".": {}, "f:size": {}}}
    }


def test_a_create_keeps_the_entries_of_the_client_for_fields_that_it_does_not_set() -> None:
    entry = {"manager": "x", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1"}
    given = {**entry, "fieldsV1": {"f:spec": {"f:size": {}, "f:color": {}}}}
    assert entries(created({"size": 1}, managedFields=[given])) == {
        "m": {"f:spec": {".": {}, "f:size": {}}},
        "x": {"f:spec": {"f:color": {}}},
    }


def test_an_update_takes_over_what_it_changes() -> None:
    live = created({"size": 1, "color": "red"})
    new = fields().update(live, widget({"size": 2, "color": "red", "flag": True}, uid="u"), "n", V1, LATER)
    assert entries(new) == {"m": {"f:spec": {".": {}, "f:color": {}}}, "n": {"f:spec": {"f:size": {}, "f:flag": {}}}}
    assert [entry["time"] for entry in new["metadata"]["managedFields"]] == [NOW, LATER]


def test_a_manager_adds_to_its_own_entry() -> None:
    live = created({"size": 1})
    new = fields().update(live, widget({"size": 2, "color": "red"}, uid="u"), "m", V1, LATER)
    assert entries(new) == {"m": {"f:spec": {".": {}, "f:size": {}, "f:color": {}}}}
    assert new["metadata"]["managedFields"][0]["time"] == LATER


def test_removed_fields_lose_their_owner_without_changing_times() -> None:
    live = created({"size": 1, "color": "red"})
    new = fields().update(live, widget({"color": "red"}, uid="u"), "n", V1, LATER)
    assert entries(new) == {"m": {"f:spec": {".": {}, "f:color": {}}}}
    assert new["metadata"]["managedFields"][0]["time"] == NOW
    assert "managedFields" not in fields().update(new, widget(None, uid="u"), "n", V1, LATER)["metadata"]


def test_arguments_are_not_modified_and_a_no_op_keeps_the_entries() -> None:
    live = created({"size": 1, "tags": ["a"]})
    new = widget({"size": 1, "tags": ["a"]}, uid="u")
    inputs = copy.deepcopy((live, new))
    result = fields().update(live, new, "n", V1, LATER)
    assert (live, new) == inputs
    assert result["metadata"]["managedFields"][0] is live["metadata"]["managedFields"][0]
    assert is_unchanged(live, result)


def test_an_object_without_entries_gets_none() -> None:
    live = widget({"size": 1}, uid="u")
    assert "managedFields" not in fields().update(live, widget({"size": 2}, uid="u"), "m", V1, NOW)["metadata"]


@pytest.mark.parametrize(
    "sent, kept",
    [
        pytest.param(None, True, id="null"),
        pytest.param([], True, id="none"),
        pytest.param([{}], False, id="a reset"),
        pytest.param([{"manager": "x"}], True, id="invalid"),
        pytest.param(
            [{"manager": "x", "operation": "Apply", "apiVersion": V1, "fieldsType": "FieldsV1"}],
            False,
            id="an entry of nothing",
        ),
    ],
)
def test_entries_of_the_client(sent: Any, kept: bool) -> None:
    live = created({"size": 1})
    new = fields().update(live, widget({"size": 1}, uid="u", managedFields=sent), "n", V1, LATER)
    assert entries(new) == (entries(live) if kept else {})


def test_an_edited_list_is_accepted_and_the_change_added() -> None:
    live = created({"size": 1})
    edited = [
        {
            "manager": "x",
            "operation": "Apply",
            "apiVersion": V1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:color": {}, "f:unknown": {}, "f:size": {}}},
        }
    ]
    new = fields().update(live, widget({"size": 2}, uid="u", managedFields=edited), "n", V1, LATER)
    assert entries(new) == {"x": {"f:spec": {"f:color": {}, "f:unknown": {}}}, "n": {"f:spec": {"f:size": {}}}}


def test_for_built_in_kinds_an_empty_list_is_a_reset_too() -> None:
    manager = FieldManager("Widget", {V1: structural}, builtin=True)
    live = created({"size": 1})
    assert entries(manager.update(live, widget({"size": 1}, uid="u", managedFields=[]), "n", V1, LATER)) == {}


def test_the_list_of_the_client_is_ignored_for_subresources() -> None:
    live = created({"size": 1})
    new = fields().update(
        live, widget({"size": 1}, status={"phase": "x"}, uid="u", managedFields=[{}]), "c", V1, LATER, "status"
    )
    assert new["metadata"]["managedFields"][1] == {
        "manager": "c",
        "operation": "Update",
        "apiVersion": V1,
        "time": LATER,
        "fieldsType": "FieldsV1",
        "subresource": "status",
        "fieldsV1": {"f:status": {".": {}, "f:phase": {}}},
    }


def test_each_path_owns_its_own_part() -> None:
    manager = fields(status_versions=[V1])
    live = manager.update(None, widget({"size": 1}, status={"phase": "x"}), "m", V1, NOW)
    assert entries(live) == {"m": {"f:spec": {".": {}, "f:size": {}}}}
    both = widget({"size": 2}, status={"phase": "x"}, labels={"a": "b"}, uid="u")
    assert entries(manager.update(live, both, "c", V1, LATER, "status")) == entries(live)
    status = manager.update(live, widget({"size": 2}, status={"phase": "y"}, uid="u"), "c", V1, LATER, "status")
    assert entries(status) == {**entries(live), "c": {"f:status": {"f:phase": {}}}}


def test_objects_that_do_not_fit_the_schema_keep_their_entries() -> None:
    live = created({"size": 1})
    assert entries(fields().update(live, widget({"size": "x"}, uid="u"), "n", V1, LATER)) == entries(live)
    assert entries(fields().update(None, widget({"tags": [{}]}), "n", V1, LATER)) == {}


def test_an_object_without_metadata_is_unchanged() -> None:
    odd = {"apiVersion": V1, "kind": "Widget"}
    assert fields().update(None, odd, "m", V1, NOW) is odd


def two_versions(**more: Any) -> FieldManager:
    old = structural()
    new = structural(
        {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "shape": {"type": "string"}}}
            },
        }
    )
    return FieldManager("Widget", {V1: lambda: old, V2: lambda: new}, **more)


def test_another_version_has_an_entry_of_its_own() -> None:
    manager = two_versions()
    live = created({"size": 1, "color": "red"})
    at_v2 = widget({"size": 1, "shape": "round", "color": "red"}, version=V2, uid="u")
    new = manager.update({**live, "apiVersion": V2}, at_v2, "m", V2, LATER)
    assert [(entry["apiVersion"], entry["fieldsV1"]) for entry in new["metadata"]["managedFields"]] == [
        (V1, {"f:spec": {".": {}, "f:size": {}, "f:color": {}}}),
        (V2, {"f:spec": {"f:shape": {}}}),
    ]


def test_a_change_is_seen_in_each_version() -> None:
    def convert(value: dict[str, Any], version: str) -> dict[str, Any]:
        """`color` of v1 is `shape` of v2."""
        spec = dict(value["spec"])
        for old, name in (("color", "shape"), ("shape", "color")):
            if old in value["spec"] and version == {"shape": V2, "color": V1}[name]:
                spec[name] = spec.pop(old)
        return {**value, "apiVersion": version, "spec": spec}

    manager = two_versions(convert=convert)
    live = convert(created({"size": 1, "color": "red"}), V2)
    new = manager.update(live, widget({"size": 1, "shape": "blue"}, version=V2, uid="u"), "n", V2, LATER)
    assert entries(new) == {"m": {"f:spec": {".": {}, "f:size": {}}}, "n": {"f:spec": {"f:shape": {}}}}


def test_entries_of_removed_versions_are_dropped() -> None:
    live = created({"size": 1})
    live["metadata"]["managedFields"].append(
        {**live["metadata"]["managedFields"][0], "manager": "old", "apiVersion": "example.com/v0"}
    )
    assert set(entries(fields().update(live, widget({"size": 2}, uid="u"), "m", V1, LATER))) == {"m"}


def test_a_conversion_that_fails_keeps_the_entries() -> None:
    def convert(value: dict[str, Any], version: str) -> dict[str, Any]:
        raise ConversionFailed("no")

    live = {**created({"size": 1}), "apiVersion": V2}
    new = two_versions(convert=convert).update(live, widget({"size": 2}, version=V2, uid="u"), "n", V2, LATER)
    assert entries(new) == entries(live)


def test_more_than_ten_updaters_are_merged() -> None:
    live = created({"open": {}})
    for i in range(12):
        new = widget({"open": {**live["spec"]["open"], f"k{i}": i}}, uid="u")
        live = fields().update(live, new, f"m{i:02}", V1, f"2026-01-01T00:01:{i:02}Z")
    names = [entry["manager"] for entry in live["metadata"]["managedFields"]]
    assert names == ["ancient-changes", *(f"m{i:02}" for i in range(3, 12))]


@pytest.mark.parametrize(
    "struct, spec, expected",
    [
        pytest.param(
            CustomResourceDefinition,
            {"group": "g", "names": {"plural": "p", "kind": "K"}, "versions": [1]},
            {"f:spec": {"f:group": {}, "f:names": {"f:plural": {}, "f:kind": {}}, "f:versions": {}}},
            id="CRD",
        ),
        pytest.param(
            CORE["Namespace"], {"finalizers": ["kubernetes"]}, {"f:spec": {"f:finalizers": {}}}, id="Namespace"
        ),
        pytest.param(CORE["ConfigMap"], {"a": "b"}, {"f:spec": {".": {}, "f:a": {}}}, id="ConfigMap"),
    ],
)
def test_default_members_of_built_in_kinds_have_no_owner(struct: Struct, spec: Any, expected: Any) -> None:
    kind = struct.name
    schema = structural(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "group": {"type": "string"},
                        "scope": {"type": "string"},
                        "a": {"type": "string"},
                        "names": {
                            "type": "object",
                            "properties": {"plural": {"type": "string"}, "kind": {"type": "string"}},
                        },
                        "versions": {"type": "array", "items": {"type": "integer"}},
                        "finalizers": {"type": "array", "items": {"type": "string"}},
                    },
                },
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    )
    manager = FieldManager(kind, {"v1": lambda: schema}, builtin=True, zeros=zero_members(struct))
    made = manager.update(
        None, {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}, "m", "v1", NOW
    )
    assert entries(made) == {"m": expected}


def test_is_unchanged_ignores_times_only() -> None:
    live = created({"size": 1})
    later = copy.deepcopy(live)
    later["metadata"]["managedFields"][0]["time"] = LATER
    assert is_unchanged(live, later)
    later["metadata"]["managedFields"][0]["manager"] = "x"
    assert not is_unchanged(live, later)
    assert not is_unchanged(live, {**live, "spec": {"size": True}})


def test_an_update_of_a_subresource_takes_nothing_from_owners_of_another_version() -> None:
    both = two_versions(status_versions=[V1, V2])
    live = both.update(None, {**widget({"size": 1}), "apiVersion": V2}, "other", V2, NOW)
    live = {**live, "apiVersion": V1}
    result = both.update(live, widget({"size": 2}, status={"phase": "x"}, uid="u"), "s", V1, LATER, "status")
    assert {entry["manager"] for entry in result["metadata"]["managedFields"]} == {"other", "s"}
    [mine] = [entry for entry in result["metadata"]["managedFields"] if entry["manager"] == "other"]
    assert mine["fieldsV1"]["f:spec"] == {".": {}, "f:size": {}}
