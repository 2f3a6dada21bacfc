"""Tables of custom resources: columns, cells of each type against each kind of value, rows."""

from __future__ import annotations

import datetime
import time
from typing import Any

import pytest

from registry.api.tables.table import (
    CREATED_DESCRIPTION,
    NAME_DESCRIPTION,
    TABLE_VISITS,
    IncludeObjectError,
    age,
    check_include_object,
    custom_table,
)
from registry.budget import Budget
from registry.codec.json_encode import encode_json
from registry.definitions.model import Column

NOW = datetime.datetime(2026, 11, 21, 12, 0, 0, tzinfo=datetime.UTC).timestamp()
TYPES = ("integer", "number", "string", "boolean", "date")


def cells(value: Any) -> list[Any]:
    """The cells of `spec.v` in a column of each type."""
    table = custom_table([Column(type_, type_, ".spec.v") for type_ in TYPES])
    found: list[Any] = table.row({"metadata": {"name": "a"}, "spec": {"v": value}}, NOW)["cells"]
    return found[1:]


@pytest.mark.parametrize(
    "value, expected",
    [
        pytest.param(7, [7, 7.0, "7", None, None], id="integer"),
        pytest.param(2.5, [2, 2.5, "2.5", None, None], id="float"),
        pytest.param(-2.5, [-2, -2.5, "-2.5", None, None], id="negative float is cut towards nought"),
        pytest.param(4.0, [4, 4.0, "4", None, None], id="whole float"),
        pytest.param(1e21, [-(1 << 63), 1e21, "1e+21", None, None], id="float beyond int64"),
        pytest.param(
            9007199254740993, [9007199254740993, 9007199254740992.0, "9007199254740993", None, None], id="large integer"
        ),
        pytest.param(
            12345678901234567890.0,
            [-(1 << 63), 12345678901234567890.0, "1.2345678901234567e+19", None, None],
            id="large float",
        ),
        pytest.param(True, [None, None, "true", True, None], id="true"),
        pytest.param(False, [None, None, "false", False, None], id="false"),
        pytest.param("x", [None, None, "x", None, "<invalid>"], id="text"),
        pytest.param("", [None, None, "", None, "<unknown>"], id="empty text"),
        pytest.param('a\tb\n"c" <&>', [None, None, 'a\tb\n"c" <&>', None, "<invalid>"], id="odd text"),
        pytest.param(None, [None, None, "<no value>", None, None], id="null"),
        pytest.param({"x": "<", "a": [1, 2]}, [None, None, '{"a":[1,2],"x":"\\u003c"}', None, None], id="object"),
        pytest.param(["a", 1], [None, None, '["a",1]', None, None], id="list"),
        pytest.param([], [None, None, "[]", None, None], id="empty list"),
    ],
)
def test_cells(value: Any, expected: list[Any]) -> None:
    found = cells(value)
    assert found == expected
    assert [type(cell) for cell in found] == [type(cell) for cell in expected]


def test_elements_of_a_string_are_shown_in_string_columns_only() -> None:
    table = custom_table([Column(type_, type_, ".spec.*") for type_ in TYPES])
    found = table.row({"metadata": {"name": "a"}, "spec": "m"}, NOW)["cells"][1:]
    assert found == [None, None, "109", None, None]


def test_cells_of_missing_values_and_broken_paths() -> None:
    table = custom_table(
        [
            Column("missing", "string", ".spec.v"),
            Column("first", "string", ".l[*]"),
            Column("none", "string", ".l[7]"),
            Column("dotted", "string", r".m.a\.b"),
            Column("odd", "strange", ".l[0]"),
        ]
    )
    obj = {"metadata": {"name": "a"}, "l": ["x", "y"], "m": {"a.b": "z"}}
    assert table.row(obj, NOW)["cells"] == ["a", None, "x", None, "z", None]


def _deep(depth: int) -> Any:
    value: Any = {"zz": "found"}
    for _ in range(depth):
        value = {"a": value, "b": [0] * 500}
    return value


def test_a_cell_that_visits_too_much_is_null_and_the_others_are_not() -> None:
    table = custom_table(
        [Column("dear", "string", ".spec" + "..a" * 2 + ".zz")] * 20
        + [Column("plain", "string", ".spec.plain"), Column("all", "string", ".spec.few")]
    )
    obj = {"metadata": {"name": "a"}, "spec": {"a": _deep(180), "plain": "p", "few": {"b": 1}}}
    began = time.process_time()
    cells = table.row(obj, NOW)["cells"]
    assert time.process_time() - began < 3
    assert cells[1:21] == [None] * 20
    assert cells[21] == "p"


def test_the_length_of_large_values_is_checked_before_they_are_printed() -> None:
    table = custom_table([Column("all", "string", ".spec")] * 500)
    obj = {"metadata": {"name": "a"}, "spec": [{"n": n, "text": "x" * 50} for n in range(8000)]}
    began = time.process_time()
    cells = table.row(obj, NOW)["cells"]
    assert time.process_time() - began < 3
    assert cells[1].startswith('[{"n":0,')
    assert cells[-1] is None


def test_the_rows_of_a_table_share_their_visits() -> None:
    table = custom_table([Column("dear", "string", ".spec..zz"), Column("plain", "string", ".spec.plain")])
    obj = {"metadata": {"name": "a"}, "spec": {"l": [{"n": n} for n in range(15_000)], "zz": "found", "plain": "p"}}
    budget = Budget(TABLE_VISITS)
    rows = [table.row(obj, NOW, budget=budget)["cells"] for _ in range(100)]
    assert rows[0] == ["a", "found", "p"]
    assert rows[-1] == ["a", None, "p"]
    assert budget.left >= 0


def test_column_definitions() -> None:
    table = custom_table(
        [
            Column("Size", "integer", ".spec.size", format="int32"),
            Column("Wide", "string", ".w", description="a wide one", priority=1),
        ]
    )
    assert table.columns == [
        {"name": "Name", "type": "string", "format": "name", "description": NAME_DESCRIPTION, "priority": 0},
        {
            "name": "Size",
            "type": "integer",
            "format": "int32",
            "priority": 0,
            "description": "Custom resource definition column (in JSONPath format): .spec.size",
        },
        {"name": "Wide", "type": "string", "format": "", "description": "a wide one", "priority": 1},
    ]


def test_default_columns() -> None:
    table = custom_table([])
    assert table.columns[1] == {
        "name": "Age",
        "type": "date",
        "format": "",
        "description": CREATED_DESCRIPTION,
        "priority": 0,
    }
    obj = {"metadata": {"name": "a", "creationTimestamp": "2026-11-21T11:00:00Z"}}
    assert table.row(obj, NOW)["cells"] == ["a", "60m"]
    assert table.row({"metadata": {"name": "a"}}, NOW)["cells"] == ["a", None]


def test_columns_after_an_invalid_path_are_dropped() -> None:
    table = custom_table([Column("A", "string", ".a"), Column("B", "string", ".b["), Column("C", "string", ".c")])
    assert [column["name"] for column in table.columns] == ["Name", "A"]
    assert table.row({"metadata": {"name": "n"}, "a": "x", "c": "y"}, NOW)["cells"] == ["n", "x"]


@pytest.mark.parametrize(
    "timestamp, text",
    [
        ("2026-11-21T11:59:55Z", "5s"),
        ("2026-11-21T12:00:01Z", "0s"),
        ("2026-11-21T12:00:02Z", "<invalid>"),
        ("2026-11-21T14:00:00+02:30", "30m"),
        ("2001-11-20T00:00:00Z", "25y"),
        ("1700-01-01T00:00:00Z", "292y"),
        ("2999-01-01T00:00:00Z", "<invalid>"),
        ("0001-01-01T00:00:00Z", "<unknown>"),
        ("0000-06-01T00:00:00Z", "292y"),
        ("", "<unknown>"),
        ("null", "<unknown>"),
        ("2001-01-01", "<invalid>"),
        ("2001-02-30T00:00:00Z", "<invalid>"),
        ("2024-02-29T12:00:00.5Z", "2y266d"),
    ],
)
def test_age(timestamp: str, text: str) -> None:
    assert age(timestamp, NOW) == text


@pytest.mark.parametrize(
    "include, shown",
    [
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1", "metadata": {"name": "a"}}),
        ("Object", {"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "a"}, "spec": {}}),
        ("None", None),
    ],
)
def test_rows(include: str, shown: Any) -> None:
    obj = {"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "a"}, "spec": {}}
    table = custom_table([Column("Size", "integer", ".spec.size")])
    assert table.row(obj, NOW, include, "v1beta1") == {"cells": ["a", None], "object": shown}


def test_documents() -> None:
    table = custom_table([Column("N", "number", ".n")])
    row = table.row({"metadata": {"name": "a"}, "n": 3}, NOW, "None")
    document = table.document([row], {"resourceVersion": "7"})
    assert document == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "columnDefinitions": list(table.columns),
        "rows": [row],
    }
    assert encode_json(row) == b'{"cells":["a",3],"object":null}'
    assert table.document([], {}, "v1beta1", headers=False) == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1beta1",
        "metadata": {},
        "columnDefinitions": None,
        "rows": [],
    }


@pytest.mark.parametrize(
    "value, found", [("", "Metadata"), ("Metadata", "Metadata"), ("Object", "Object"), ("None", "None")]
)
def test_include_object(value: str, found: str) -> None:
    assert check_include_object(value) == found


@pytest.mark.parametrize("value, shown", [("none", '"none"'), ('a"\0<', r'"a\"\u0000\u003c"')])
def test_bad_include_object(value: str, shown: str) -> None:
    with pytest.raises(IncludeObjectError) as raised:
        check_include_object(value)
    assert str(raised.value) == (
        f"Unable to convert to Table as requested: includeObject: Invalid value: {shown}: "
        "must be 'Metadata', 'Object', 'None', or empty"
    )
