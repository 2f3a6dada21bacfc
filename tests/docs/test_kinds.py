"""docs/kinds.md lists exactly the built-in kinds, and names as missing only kinds that are missing."""

from __future__ import annotations

import re

from registry import builtin
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/kinds.md").read_text()


def test_the_table_has_every_built_in_kind() -> None:
    table = PAGE.split("\n## What there is\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ") and "`" in line]
    listed = {
        (re.split(r"\.k8s\.io|/", group)[0], resource)
        for _, resources, apis, _ in rows
        for group in re.findall(r"`([^`]+)`", apis)[:1]
        for resource in re.findall(r"`([a-z]{5,})`", resources)
    }
    served = {
        (definition.group.removesuffix(".k8s.io") or "v1", definition.names.plural)
        for definition in builtin.definitions()
        if definition.group != "events.k8s.io"  # beside those of the core group
    }
    assert served - listed == set(), "kinds that the page leaves out"
    short_names = {name for d in builtin.definitions() for name in d.names.short_names}
    assert {resource for _, resource in listed} - {name for _, name in served} - short_names == set()


def test_kinds_listed_as_absent_are_absent() -> None:
    kinds = set(
        re.findall(
            r"\b(?:[A-Z][a-z]+)+(?:[A-Z]+[a-z]*)*\b",
            PAGE.split("\n## What there is not\n")[1].split("\n\nIf a program")[0],
        )
    )
    assert {"Pod", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget"} <= kinds
    assert kinds & {definition.names.kind for definition in builtin.definitions()} == set()
