"""The entries: what counts as one, their order, their number."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.managed import (
    ANCIENT,
    MAX_UPDATERS,
    Managed,
    Manager,
    Owner,
    cap,
    encode,
    is_reset,
    read_requested,
    read_stored,
    updater,
)


def entry(manager: str = "m", operation: str = "Update", **more: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "g/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:a": {}}},
        "time": "2026-01-01T00:00:00Z",
        **more,
    }


def test_stored_entries_round_trip() -> None:
    entries = [entry("a", "Apply"), entry("b", subresource="status")]
    again = encode(read_stored(entries))
    assert again == entries
    assert all(new is old for new, old in zip(again, entries, strict=True))


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("text", id="no object"),
        pytest.param(entry(operation=""), id="no operation"),
        pytest.param(entry(operation="Create"), id="unknown operation"),
        pytest.param(entry(apiVersion=""), id="no version"),
        pytest.param(entry(fieldsType=""), id="no type of fields"),
        pytest.param(entry(fieldsType="V2"), id="unknown type"),
        pytest.param(entry(fieldsV1={"spec": {}}), id="unreadable fields"),
        pytest.param({**entry(), "manager": 5}, id="a number"),
        pytest.param(entry(time="yesterday"), id="no time"),
        pytest.param(entry(time=5), id="a number for a time"),
        pytest.param(entry(time="2026-13-01T00:00:00Z"), id="no such month"),
    ],
)
def test_an_invalid_entry_discards_all_entries(bad: Any) -> None:
    assert read_requested([entry(), bad]) is None


def test_times_are_in_utc_and_whole_seconds() -> None:
    found = read_requested([entry(time="2026-01-01T02:00:00.5+01:00")])
    assert found is not None
    assert [owner.time for owner in found.values()] == ["2026-01-01T01:00:00Z"]


@pytest.mark.parametrize(
    "entries, expected",
    [
        ([{}], True),
        ([{"manager": ""}], True),
        ([{"other": 1}], True),
        ([], False),
        (None, False),
        ([{}, {}], False),
        ([entry()], False),
        ([{"fieldsV1": {}}], False),
    ],
)
def test_a_reset_is_one_empty_entry(entries: Any, expected: bool) -> None:
    assert is_reset(entries) is expected


def test_order_is_appliers_then_time_then_name_then_version_then_subresource() -> None:
    def owner(version: str = "g/v1", time: str | None = "2026-01-01T00:00:00Z") -> Owner:
        return Owner(version, {"f:a": {}}, time)

    managed: Managed = {
        Manager("b", "Update", "g/v1"): owner(),
        Manager("a", "Update", "g/v2"): owner("g/v2"),
        Manager("a", "Update", "g/v1", "status"): owner(),
        Manager("a", "Update", "g/v1"): owner(),
        Manager("z", "Apply"): owner(time=None),
        Manager("y", "Apply"): owner(),
        Manager("0", "Update", "g/v1"): owner(time="2026-01-01T00:00:01Z"),
    }
    assert [(e["manager"], e["apiVersion"], e.get("subresource")) for e in encode(managed)] == [
        ("z", "g/v1", None),
        ("y", "g/v1", None),
        ("a", "g/v1", None),
        ("a", "g/v1", "status"),
        ("a", "g/v2", None),
        ("b", "g/v1", None),
        ("0", "g/v1", None),
    ]


def test_the_oldest_updaters_are_merged() -> None:
    managed: Managed = {
        Manager(f"m{i:02}", "Update", "g/v1"): Owner("g/v1", {f"f:{i}": {}}, f"2026-01-01T00:00:{i:02}Z")
        for i in range(MAX_UPDATERS + 2)
    }
    managed[Manager("applier", "Apply")] = Owner("g/v1", {"f:x": {}}, None)
    cap(managed)
    bucket = managed[updater(ANCIENT, "g/v1", "")]
    assert bucket.fields == {"f:0": {}, "f:1": {}, "f:2": {}}
    assert bucket.time == "2026-01-01T00:00:02Z"
    assert len(managed) == MAX_UPDATERS + 1
    managed[Manager("new", "Update", "g/v1")] = Owner("g/v1", {"f:new": {}}, "2026-01-01T00:01:00Z")
    cap(managed)
    assert managed[updater(ANCIENT, "g/v1", "")].fields == {"f:0": {}, "f:1": {}, "f:2": {}, "f:3": {}}


def test_updaters_of_different_versions_are_merged_apart() -> None:
    managed: Managed = {}
    for i in range(MAX_UPDATERS + 1):
        version = f"g/v{i % 2}"
        managed[Manager(f"m{i:02}", "Update", version)] = Owner(version, {f"f:{i}": {}}, f"2026-01-01T00:00:{i:02}Z")
    cap(managed)
    assert managed[updater(ANCIENT, "g/v0", "")].fields == {"f:0": {}, "f:2": {}}
    assert updater(ANCIENT, "g/v1", "") not in managed


def test_names_of_managers_in_conflicts() -> None:
    assert Manager("m", "Apply").text() == '"m"'
    assert Manager('"', "Update", "g/v1", "status").text() == '"\\"" with subresource "status" using g/v1'


def test_an_entry_without_a_manager_has_no_empty_one() -> None:
    entries = [{"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}, "operation": "Update"}]
    managed = read_requested([{**entries[0], "manager": None}])
    assert managed is not None
    assert encode(managed) == entries
