from __future__ import annotations

from typing import Any

from registry.definitions.conditions import find, has_condition, is_true, with_condition

OLD = {"type": "A", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z", "reason": "R", "message": "M"}
NOW = "2024-05-06T07:08:09Z"


def test_the_transition_time_changes_with_the_status_only() -> None:
    status: dict[str, Any] = {"conditions": [OLD, {**OLD, "type": "B"}], "storedVersions": ["v1"]}
    same = with_condition(status, "A", "True", "R2", "M2", NOW)
    assert same["conditions"][0] == {**OLD, "reason": "R2", "message": "M2"}
    other = with_condition(status, "A", "False", "R", "M", NOW)
    assert other["conditions"][0] == {**OLD, "status": "False", "lastTransitionTime": NOW}
    assert [c["type"] for c in other["conditions"]] == ["A", "B"]
    assert other["storedVersions"] == ["v1"]
    assert status["conditions"][0] is OLD


def test_new_conditions_are_appended() -> None:
    found = with_condition({"conditions": None}, "C", "False", "R", "M", NOW)
    assert found["conditions"] == [
        {"type": "C", "status": "False", "lastTransitionTime": NOW, "reason": "R", "message": "M"}
    ]


def test_find_a_condition() -> None:
    crd = {"status": {"conditions": [OLD]}}
    assert find(crd, "A") is OLD
    assert is_true(crd, "A")
    assert not is_true(crd, "B")
    assert not is_true({}, "A")


def test_a_condition_is_there_at_whatever_time() -> None:
    crd = {"status": {"conditions": [OLD, {"type": "B", "status": "True"}]}}
    assert has_condition(crd, "A", "True", "R", "M")
    assert not has_condition(crd, "A", "True", "R", "")
    assert not has_condition(crd, "A", "False", "R", "M")
    assert has_condition(crd, "B", "True", "", "")
    assert not has_condition({}, "A", "True", "R", "M")
