"""Array parameters reach PostgreSQL unchanged."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from registry.store import arrays
from registry.store.arrays import BigintArray, TextArray
from registry.store.encoding import label_element, label_elements


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([], id="empty"),
        pytest.param(["a"], id="one"),
        pytest.param([None], id="null"),
        pytest.param(["", None, "NULL", 'q"uo\\te', "{,}", "ä😀", " "], id="odd"),
        pytest.param(["x" * 1_000_000], id="long"),
    ],
)
async def test_texts(postgres_server: str, items: list[str | None]) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_server) as connection:
        arrays.register(connection)
        cursor = await connection.execute("SELECT %s", [TextArray(items)])
        assert await cursor.fetchone() == (items,)


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([], id="empty"),
        pytest.param([0, None, -1], id="null"),
        pytest.param([2**63 - 1, -(2**63)], id="extremes"),
    ],
)
async def test_integers(postgres_server: str, items: list[int | None]) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_server) as connection:
        arrays.register(connection)
        cursor = await connection.execute("SELECT %s", [BigintArray(items)])
        assert await cursor.fetchone() == (items,)


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([], id="empty"),
        pytest.param(["a", "b c", ""], id="plain"),
        pytest.param(['q"', "\\", '\\"', "{}", ",", "NULL", "ä\n"], id="odd"),
    ],
)
def test_literals_are_read_back_by_postgresql(postgres_server: str, items: list[str]) -> None:
    with psycopg.connect(postgres_server) as connection:
        text = sql.Literal(arrays.literal(items))
        row = connection.execute(sql.SQL("SELECT {}::text[]").format(text)).fetchone()
    assert row == (items,)


@given(st.text('a/"\\'), st.lists(st.text('ab="\\,{}é'), max_size=10), st.sampled_from([1, 1, 1, 500]))
def test_literals_of_items_with_one_prefix_are_literals(prefix: str, items: list[str], times: int) -> None:
    items *= times
    assert arrays.prefixed_literal(prefix, items) == arrays.literal([prefix + item for item in items])


def test_labels_have_their_form_in_the_column_one_by_one_or_together() -> None:
    for labels in ([], ["a=b"], ["a=b", "n=\x00"], ["a=é"], ["a=b", "f:x=" + "x" * 600]):
        assert list(label_elements(labels)) == [label_element(label) for label in labels]
    assert label_elements([f"l{i}=x" for i in range(10)])[9] == "l9=x"
