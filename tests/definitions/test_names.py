from __future__ import annotations

from typing import Any

import pytest

from registry.definitions.names import (
    MAX_NAMES,
    definition_name,
    validate_group,
    validate_names,
    validate_number_of_names,
    validate_required_names,
)
from tests.definitions.crds import messages

LABEL = "a DNS-1035 label must consist of"
LONG = "a" * 64


@pytest.mark.parametrize(
    "names, errors",
    [
        pytest.param(
            {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
                "shortNames": ["w", "w"],
                "categories": ["all", "all"],
            },
            [],
            id="good, doubles pass",
        ),
        pytest.param({}, [], id="none"),
        pytest.param({"plural": "Widgets"}, [f'n.plural: Invalid value: "Widgets": {LABEL}'], id="plural"),
        pytest.param(
            {"plural": LONG}, [f'n.plural: Invalid value: "{LONG}": must be no more than 63 characters'], id="long"
        ),
        pytest.param(
            {"kind": "Wid_get"},
            [f'n.kind: Invalid value: "Wid_get": may have mixed case, but should otherwise match: {LABEL}'],
            id="kind",
        ),
        pytest.param(
            {"kind": "W", "listKind": "W"},
            ['n.listKind: Invalid value: "W": kind and listKind may not be the same'],
            id="kind is list kind",
        ),
        pytest.param({"kind": "W", "listKind": "w"}, [], id="by case"),
        pytest.param(
            {"shortNames": ["", "a b"]},
            [f'n.shortNames[0]: Invalid value: "": {LABEL}', f'n.shortNames[1]: Invalid value: "a b": {LABEL}'],
            id="short names",
        ),
        pytest.param({"categories": ["A"]}, [f'n.categories[0]: Invalid value: "A": {LABEL}'], id="categories"),
    ],
)
def test_names(names: dict[str, Any], errors: list[str]) -> None:
    found = messages(validate_names(names, "n"))
    assert len(found) == len(errors)
    assert all(f.startswith(e) for f, e in zip(found, errors, strict=True)), found


def test_required_names() -> None:
    assert messages(validate_required_names({"kind": ""}, "n")) == [
        f"n.{name}: Required value" for name in ("plural", "singular", "kind", "listKind")
    ]


@pytest.mark.parametrize(
    "group, error",
    [
        pytest.param("a.b", None, id="good"),
        pytest.param("", "g: Required value", id="empty"),
        pytest.param("a", 'g: Invalid value: "a": should be a domain with at least one dot', id="no dot"),
        pytest.param("A.b", 'g: Invalid value: "A.b": a lowercase RFC 1123 subdomain must consist of', id="capital"),
        pytest.param("a." + "b" * 64, None, id="long part"),
        pytest.param("a." * 126 + "bb", 'g: Invalid value: "', id="too long"),
    ],
)
def test_group(group: str, error: str | None) -> None:
    found = messages(validate_group(group, "g"))
    assert [f.startswith(error or "") for f in found] == ([True] if error else [])


@pytest.mark.parametrize(
    "name, prefix, errors",
    [
        pytest.param("ws.a.b", False, [], id="good"),
        pytest.param("w.a.b", False, ['must be spec.names.plural+"."+spec.group'], id="another"),
        pytest.param("ws.a.b-", True, ['must be spec.names.plural+"."+spec.group'], id="generateName"),
    ],
)
def test_definition_name(name: str, prefix: bool, errors: list[str]) -> None:
    assert definition_name(name, {"names": {"plural": "ws"}, "group": "a.b"}, prefix) == errors


@pytest.mark.parametrize("name", ["shortNames", "categories"])
def test_names_are_bounded_in_number(name: str) -> None:
    some = [f"a{i}" for i in range(MAX_NAMES)]
    assert validate_number_of_names({name: some}, "n") == []
    assert messages(validate_number_of_names({name: [*some, "b"]}, "n")) == [
        f"n.{name}: Too many: {MAX_NAMES + 1}: must have at most {MAX_NAMES} items"
    ]
