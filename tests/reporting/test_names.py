"""View and column names are in snake case, fit into 63 bytes, and are deterministic."""

from __future__ import annotations

import pytest

from registry.reporting import names
from registry.store.reporting.quoting import with_digest

SNAKE = [
    ("readyReplicas", "ready_replicas"),
    ("HTTPRoute", "http_route"),
    ("clusterIPs", "cluster_ips"),
    ("a.b-c/d e", "a_b_c_d_e"),
    ("quo\"te's", "quo_te_s"),
    ("größe", "größe"),
    ("SELECT", "select"),
    ("日本", "日本"),
    ("\x00;", ""),
    ("x509Cert", "x509_cert"),
]


@pytest.mark.parametrize("text, expected", SNAKE, ids=[case[0].strip("\x00") or "zero" for case in SNAKE])
def test_snake(text: str, expected: str) -> None:
    assert names.snake(text) == expected


COLUMNS = [
    ("nested", ("spec", "readyReplicas"), set[str](), "spec_ready_replicas"),
    ("metadata", ("name",), set(names.RESERVED), "name_field"),
    ("system", ("ctid",), set(names.RESERVED), "ctid_field"),
]


@pytest.mark.parametrize("path, taken, expected", [case[1:] for case in COLUMNS], ids=[case[0] for case in COLUMNS])
def test_columns(path: tuple[str, ...], taken: set[str], expected: str) -> None:
    assert names.column_name(path, taken) == expected


@pytest.mark.parametrize(
    "path",
    [("spec", "x" * 200), ("spec", "ü" * 60), ("spec", "."), ("日" * 80,)],
    ids=["long", "umlauts", "dot", "kanji"],
)
def test_long_names_are_cut_and_get_a_suffix(path: tuple[str, ...]) -> None:
    name = names.column_name(path, names.RESERVED)
    assert 0 < len(name.encode()) <= 63
    assert name == names.column_name(path, names.RESERVED)


def test_long_names_with_a_common_prefix_differ() -> None:
    first, second = (names.column_name(("spec", "x" * 100 + end), ()) for end in ("a", "b"))
    assert first != second


def test_the_suffix_of_a_taken_name_depends_on_the_path_only() -> None:
    name = names.column_name(("spec", "a.b"), {"spec_a_b"})
    assert name.startswith("spec_a_b_")
    assert name == names.column_name(("spec", "a.b"), {"spec_a_b", "other"})


def test_views_leave_room_for_their_suffixes() -> None:
    name = names.view_name("x" * 60, "y" * 100 + ".example.com")
    assert len(f"{name}_history_as_of") <= 63
    assert names.view_name("crontabs", "stable.example.com") == "crontabs_stable_example_com"


def test_a_property_named_like_the_suffixed_name_of_another() -> None:
    evil = with_digest("spec_a_b", "spec\x00aB")
    found = {evil, "spec_a_b"}
    name = names.column_name(("spec", "aB"), found)
    assert name not in found
    assert name == names.column_name(("spec", "aB"), found)
