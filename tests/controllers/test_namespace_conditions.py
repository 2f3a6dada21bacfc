from __future__ import annotations

from registry.controllers.namespaces import with_conditions

FIRST, SECOND = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def test_all_five_in_their_order() -> None:
    status = with_conditions({"phase": "Terminating"}, {}, {}, FIRST)
    assert status["phase"] == "Terminating"
    assert [(c["type"], c["status"], c["reason"]) for c in status["conditions"]] == [
        ("NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions"),
        ("NamespaceDeletionContentFailure", "False", "ContentDeleted"),
        ("NamespaceContentRemaining", "False", "ContentRemoved"),
        ("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers"),
    ]


def test_what_remains_is_listed_in_order() -> None:
    remaining = {"widgets.example.com": 3, "configmaps.": 1}
    conditions = with_conditions({}, remaining, {"b/two": 1, "a/one": 2}, FIRST)["conditions"]
    assert conditions[3]["message"] == (
        "Some resources are remaining: configmaps. has 1 resource instances, "
        "widgets.example.com has 3 resource instances"
    )
    assert conditions[4]["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "a/one in 2 resource instances, b/two in 1 resource instances"
    )


def test_messages_are_bounded() -> None:
    """Each would be a copy of what a server or a user has made up, in the namespace and its history."""
    many = {f"{number}" + "x" * 100: 1 for number in range(1000)}
    conditions = with_conditions({}, many, many, FIRST, undiscovered=list(many), failures=list(many))["conditions"]
    assert [len(c["message"]) for c in conditions if c["status"] == "True"] == [4096] * 4


def test_an_unchanged_condition_keeps_its_time_and_other_conditions_are_kept() -> None:
    mine = {"type": "Mine", "status": "True", "lastTransitionTime": FIRST}
    before = with_conditions({"conditions": [mine]}, {"widgets.example.com": 1}, {}, FIRST)
    after = with_conditions(before, {}, {}, SECOND)
    assert after["conditions"][0] == mine
    times = {c["type"]: c["lastTransitionTime"] for c in after["conditions"]}
    assert times == {c["type"]: FIRST for c in before["conditions"]} | {"NamespaceContentRemaining": SECOND}
    assert before["conditions"][4]["reason"] == "SomeResourcesRemain"
