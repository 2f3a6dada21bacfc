from __future__ import annotations

import time
from typing import Any

import pytest

from registry.definitions.conditions import find
from registry.definitions.naming import (
    NamesInUse,
    accept_names,
    approve,
    establish,
    held_names,
    needs_reconsidering,
    next_status,
    next_statuses,
)
from tests.definitions.crds import crd, established, prepared

NOW = "2024-05-06T07:08:09Z"
OTHER = {
    "plural": "gadgets",
    "singular": "gadget",
    "shortNames": ["g", "gg"],
    "kind": "Gadget",
    "listKind": "GadgetList",
}


def other(**names: Any) -> dict[str, Any]:
    definition = established(crd(names=OTHER | names))
    definition["metadata"] = {**definition["metadata"], "name": "gadgets.g.example.com"}
    return definition


def in_use(*definitions: dict[str, Any]) -> NamesInUse:
    return NamesInUse(map(held_names, definitions))


def conditions(definition: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(c["type"], c["status"], c["reason"]) for c in definition["status"].get("conditions") or ()]


def reconcile(definition: dict[str, Any], others: list[dict[str, Any]]) -> list[list[tuple[str, str, str]]]:
    """The conditions after each write."""
    found: list[list[tuple[str, str, str]]] = []
    for _ in range(10):
        status = next_status(definition, in_use(*others), NOW)
        if status is None:
            return found
        definition = {**definition, "status": status}
        found.append(conditions(definition))
    raise AssertionError("it never ends")


def test_the_two_writes_after_creation() -> None:
    accepted = ("NamesAccepted", "True", "NoConflicts")
    assert reconcile(prepared(crd()), []) == [
        [accepted, ("Established", "False", "Installing")],
        [accepted, ("Established", "True", "InitialNamesAccepted")],
    ]


@pytest.mark.parametrize(
    "names, reason, message, accepted",
    [
        pytest.param(
            {"plural": "gadget"},
            "PluralConflict",
            '"gadget" is already in use',
            {"kind": "Widget"},
            id="plural is another's singular",
        ),
        pytest.param(
            {"singular": "gadgets"},
            "SingularConflict",
            '"gadgets" is already in use',
            {"plural": "widgets"},
            id="singular",
        ),
        pytest.param(
            {"shortNames": ["w", "g"]},
            "ShortNamesConflict",
            '"g" is already in use',
            {"singular": "widget"},
            id="short name, of which none is accepted",
        ),
        pytest.param(
            {"shortNames": ["g", "gg"]},
            "ShortNamesConflict",
            '["g" is already in use, "gg" is already in use]',
            {},
            id="short names",
        ),
        pytest.param(
            {"kind": "GadgetList"},
            "KindConflict",
            '"GadgetList" is already in use',
            {"listKind": "WidgetList"},
            id="kind is another's list kind",
        ),
        pytest.param(
            {"singular": "gadget", "listKind": "Gadget"},
            "ListKindConflict",
            '"Gadget" is already in use',
            {},
            id="the last conflict is reported",
        ),
        pytest.param(
            {"categories": ["g"], "shortNames": ["Gadget"]},
            None,
            None,
            {"shortNames": ["Gadget"]},
            id="categories and kinds are apart",
        ),
    ],
)
def test_conflicts(names: dict[str, Any], reason: str | None, message: str | None, accepted: dict[str, Any]) -> None:
    wanted = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"} | names
    definition = prepared(crd(names=wanted))
    status = accept_names(definition, in_use(other(), definition), NOW)
    assert status is not None
    found = find({"status": status}, "NamesAccepted")
    assert found is not None
    assert (found["reason"], found["message"]) == (reason or "NoConflicts", message or "no conflicts found")
    assert status["acceptedNames"].items() >= accepted.items()
    if reason:
        assert find({"status": status}, "Established") == {
            "type": "Established",
            "status": "False",
            "lastTransitionTime": NOW,
            "reason": "NotAccepted",
            "message": "not all names are accepted",
        }
        assert needs_reconsidering({**definition, "status": status})


def test_names_in_other_groups_do_not_conflict() -> None:
    elsewhere = established(crd(group="x.example.com", names={"plural": "widgets", "kind": "Widget"}))
    status = accept_names(prepared(crd()), in_use(elsewhere), NOW)
    assert conditions({"status": status})[0] == ("NamesAccepted", "True", "NoConflicts")


def test_an_established_definition_keeps_its_accepted_names() -> None:
    definition = established(crd())
    definition["spec"] = {**definition["spec"], "names": definition["spec"]["names"] | {"singular": "gadget"}}
    status = accept_names(definition, in_use(other()), NOW)
    assert status is not None
    assert status["acceptedNames"]["singular"] == "widget"
    assert conditions({"status": status}) == [
        ("NamesAccepted", "False", "SingularConflict"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    # Asking for the accepted names again is not looked at, so the conflict stays on display.
    again = {**definition, "spec": established(crd())["spec"], "status": status}
    assert accept_names(again, in_use(other()), NOW) is None
    assert not needs_reconsidering(again)


def test_a_released_name_is_accepted_for_another_definition() -> None:
    definition = prepared(crd(names={"plural": "widgets", "singular": "gadget", "kind": "Widget"}))
    status = accept_names(definition, in_use(other()), NOW)
    assert status is not None
    waiting = {**definition, "status": status}
    assert accept_names(waiting, in_use(other()), "2030-01-01T00:00:00Z") is None
    assert reconcile(waiting, [])[-1] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]


def test_an_invalid_ca_bundle_prevents_establishment() -> None:
    webhook = {"clientConfig": {"url": "https://h", "caBundle": "QUJD"}, "conversionReviewVersions": ["v1"]}
    definition = prepared(crd(conversion={"strategy": "Webhook", "webhook": webhook}))
    assert reconcile(definition, [])[-1][1] == ("Established", "False", "InvalidCABundle")


def test_nothing_is_established_before_its_names_are_accepted() -> None:
    assert establish(prepared(crd()), NOW) is None


def test_approval() -> None:
    definition = established(
        crd(group="x.k8s.io", metadata={"annotations": {"api-approved.kubernetes.io": "https://h"}})
    )
    status = approve(definition, NOW)
    assert status is not None
    assert conditions({"status": status})[-1] == ("KubernetesAPIApprovalPolicyConformant", "True", "ApprovedAnnotation")
    assert approve({**definition, "status": status}, NOW) is None


def test_the_approval_is_the_first_condition() -> None:
    definition = prepared(crd(group="x.k8s.io", metadata={"annotations": {"api-approved.kubernetes.io": "https://h"}}))
    found = [kind for kind, _, _ in reconcile(definition, [])[-1]]
    assert found == ["KubernetesAPIApprovalPolicyConformant", "NamesAccepted", "Established"]


def named(plural: str, kind: str, *, group: str = "g.example.com", **names: Any) -> dict[str, Any]:
    definition = prepared(crd(group=group, names={"plural": plural, "singular": kind.lower(), "kind": kind} | names))
    definition["metadata"] = {**definition["metadata"], "name": f"{plural}.{group}"}
    return definition


@pytest.mark.parametrize(
    "definitions, together",
    [
        pytest.param([named("as", "A"), named("bs", "B")], ["as", "bs"], id="different-names"),
        pytest.param([named("as", "A"), named("bs", "A")], ["as"], id="one-kind-for-two"),
        pytest.param([named("as", "A"), named("bs", "B", singular="a")], ["as"], id="one-singular-for-two"),
        pytest.param(
            [named("as", "A", shortNames=["x"]), named("bs", "B", shortNames=["x"]), named("cs", "C")],
            ["as", "cs"],
            id="one-short-name-for-two",
        ),
        pytest.param(
            [named("as", "A"), named("bs", "A", group="h.example.com")], ["as", "bs"], id="groups-do-not-contend"
        ),
        pytest.param(
            [named("as", "A", shortNames=["gadget"]), named("bs", "B", shortNames=["gadget"])],
            ["as", "bs"],
            id="both-are-refused-what-a-third-has",
        ),
    ],
)
def test_definitions_contending_for_a_name_are_written_separately(
    definitions: list[dict[str, Any]], together: list[str]
) -> None:
    statuses = next_statuses(definitions, in_use(other()), NOW)
    assert [name.partition(".")[0] for name in statuses] == together


def test_an_established_definition_needs_no_write() -> None:
    assert next_statuses([established(crd())], in_use(), NOW) == {crd()["metadata"]["name"]: None}


def test_many_short_names_take_linear_time() -> None:
    """Quadratic time would be minutes."""
    names = [f"s{i}" for i in range(50_000)]
    others = [f"t{i}" for i in range(50_000)]
    few = established(named("gadgets", "Gadget", shortNames=names))
    more = {**few, "spec": {**few["spec"], "names": {**few["spec"]["names"], "shortNames": others}}}
    began = time.process_time()
    statuses = next_statuses([more], in_use(few), NOW)
    assert time.process_time() - began < 20
    status = statuses[more["metadata"]["name"]]
    assert status is not None
    assert status["acceptedNames"]["shortNames"] == others


def test_names_in_use_follow_the_writes_of_a_batch() -> None:
    names = in_use(other())
    wanting = prepared(crd(names={"plural": "widgets", "singular": "gadget", "kind": "Widget"}))
    assert reconcile_with(wanting, names) == "SingularConflict"
    names.replace(held_names({**other(), "status": {}}))
    assert reconcile_with(wanting, names) == "NoConflicts"


def reconcile_with(definition: dict[str, Any], names: NamesInUse) -> str:
    status = accept_names(definition, names, NOW)
    found = find({"status": status}, "NamesAccepted")
    assert found is not None
    return str(found["reason"])
