"""Names of properties as identifiers, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.cel.common.escaping import escape, unescape


@pytest.mark.parametrize(
    "name, identifier",
    [
        ("replicas", "replicas"),
        ("x-prop", "x__dash__prop"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a_b", "a_b"),
        ("redact__d", "redact__underscores__d"),
        ("___", "__underscores___"),
        ("namespace", "__namespace__"),
        ("int", "int"),
        ("sprint", "sprint"),
        ("in", "__in__"),
        ("-", "__dash__"),
        ("_", "_"),
    ],
)
def test_escape(name: str, identifier: str) -> None:
    assert escape(name) == identifier
    assert unescape(identifier) == name


@pytest.mark.parametrize("name", ["", "1st", "a b", "a$", "é", "a\n"])
def test_names_without_identifier(name: str) -> None:
    assert escape(name) is None


@pytest.mark.parametrize("identifier", ["__nothing__", "a__namespace__"])
def test_unknown_escapes(identifier: str) -> None:
    assert unescape(identifier) is None


@given(st.from_regex(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", fullmatch=True))
def test_round_trip(name: str) -> None:
    identifier = escape(name)
    assert identifier is not None
    assert unescape(identifier) == name
