from __future__ import annotations

from typing import Any

import pytest

from registry.definitions.versions import MAX_COLUMNS, validate_columns
from tests.definitions.crds import messages

GOOD = {"name": "A", "type": "string", "jsonPath": ".a"}
TYPES = "must be one of boolean,date,integer,number,string"


@pytest.mark.parametrize(
    "column, errors",
    [
        pytest.param(GOOD, [], id="good"),
        pytest.param({**GOOD, "jsonPath": ".a[?(", "format": "int32", "priority": -1}, [], id="hardly looked at"),
        pytest.param(
            {},
            ["c[0].name: Required value", f"c[0].type: Required value: {TYPES}", "c[0].JSONPath: Required value"],
            id="empty",
        ),
        pytest.param({**GOOD, "type": "object"}, [f'c[0].type: Invalid value: "object": {TYPES}'], id="type"),
        pytest.param(
            {**GOOD, "format": "x"},
            ['c[0].format: Invalid value: "x": must be one of byte,date,date-time,double,float,int32,int64,password'],
            id="format",
        ),
        pytest.param(
            {**GOOD, "jsonPath": "a"},
            ['c[0].JSONPath: Invalid value: "a": must be a simple json path starting with .'],
            id="path",
        ),
    ],
)
def test_column(column: dict[str, Any], errors: list[str]) -> None:
    assert messages(validate_columns([column], "c")) == errors


def test_no_columns() -> None:
    assert validate_columns(None, "c") == []


def test_too_many_columns() -> None:
    assert messages(validate_columns([GOOD] * MAX_COLUMNS, "c")) == []
    assert messages(validate_columns([GOOD] * (MAX_COLUMNS + 1), "c")) == [
        "c: Too many: 501: must have at most 500 items"
    ]
