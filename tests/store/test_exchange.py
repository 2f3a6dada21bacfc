"""Calls of prepared statements (registry/store/exchange.py) return and raise what psycopg's cursors do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg
import pytest
import pytest_asyncio

from registry.store import exchange, session
from registry.store.arrays import BigintArray, TextArray, bytes_literal
from registry.store.exchange import CallTimeout, Record, Value, numbered
from registry.store.session import Connection
from registry.store.statements import Statement, statement
from tests.http.loops import on_asyncio, on_uvloop
from tests.store.relay import Relay, relayed

ECHO = statement(
    "echo",
    "What it is given.",
    """
    SELECT %(number)s::bigint, %(text)s::text, %(flag)s::boolean, %(numbers)s::bigint[], %(texts)s::text[],
        %(text)s::text || '100 %%', 0.25::float8, '2026-01-02T03:04:05Z'::timestamptz, NULL::text
    """,
)
ONE = statement("one", "A row.", "SELECT 1::bigint")
NONE = statement("none", "No row.", "SELECT 1::bigint WHERE false")
SOME = statement("some", "Some rows.", "SELECT n::bigint, NULL::text FROM generate_series(1, %(count)s::bigint) n")
NOTHING = statement("nothing", "Has no rows.", "SET LOCAL work_mem = '4MB'")
DIVIDE = statement("divide", "Fails for 0.", "SELECT 1 / %(by)s::bigint")
WRONG = statement("wrong", "Cannot be prepared.", "SELECT nobody FROM nowhere")
LENGTH = statement(
    "length", "The length of a text, and the text.", "SELECT length(%(text)s::text)::bigint, %(text)s::text"
)
SLEEP = statement("sleep", "Takes long.", "SELECT pg_sleep(600)::text")
NAP = statement("nap", "Takes as long as it is asked to.", "SELECT pg_sleep(%(seconds)s::bigint)::text")
SLEEP_SHORTLY = statement("sleep-shortly", "Takes a moment.", "SELECT pg_sleep(0.01)::text")
END = statement("end", "Ends its own session.", "SELECT pg_terminate_backend(pg_backend_pid())")


@pytest_asyncio.fixture
async def connection(postgres_server: str) -> AsyncIterator[Connection]:
    """Of the server's own database: these tests create nothing."""
    made = await session.connect(postgres_server, "test")
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize(
    ("text", "expected", "names"),
    [
        pytest.param("SELECT 1", "SELECT 1", [], id="none"),
        pytest.param("SELECT %(a)s, %(b)s", "SELECT $1, $2", ["a", "b"], id="two"),
        pytest.param("SELECT %(b)s, %(a)s, %(b)s", "SELECT $1, $2, $1", ["b", "a"], id="repeated"),
        pytest.param("SELECT %(a)s LIKE 'x%%'", "SELECT $1 LIKE 'x%'", ["a"], id="percent"),
    ],
)
def test_parameters_are_numbered(text: str, expected: str, names: list[str]) -> None:
    assert numbered(text) == (expected, names)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(
            {
                "number": 7,
                "text": "a",
                "flag": True,
                "numbers": BigintArray([1, None]),
                "texts": TextArray(["x", None]),
            },
            id="plain",
        ),
        pytest.param(
            {"number": -(2**63), "text": 'ä"\\\n😀', "flag": False, "numbers": BigintArray([]), "texts": TextArray([])},
            id="odd",
        ),
        pytest.param({"number": None, "text": None, "flag": None, "numbers": None, "texts": None}, id="null"),
    ],
)
async def test_rows_are_those_of_a_cursor(connection: Connection, values: dict[str, Value]) -> None:
    cursor = await connection.execute(ECHO.sql, values, binary=True)
    expected = await cursor.fetchall()
    for _ in range(2):  # prepared, and prepared already
        assert await connection.call(ECHO, values) == expected


@pytest.mark.parametrize(
    ("called", "values", "expected"),
    [
        pytest.param(ONE, {}, [(1,)], id="one"),
        pytest.param(NONE, {}, [], id="none"),
        pytest.param(SOME, {"count": 1000}, [(n, None) for n in range(1, 1001)], id="many"),
        pytest.param(NOTHING, {}, [], id="no rows"),
    ],
)
async def test_rows(
    connection: Connection, called: Statement, values: dict[str, Value], expected: list[tuple[object, ...]]
) -> None:
    assert await connection.call(called, values) == expected


@pytest.mark.parametrize("prepare", [True, False])
@pytest.mark.parametrize(
    ("cast", "value"),
    [
        pytest.param("smallint", 7, id="smallint"),
        pytest.param("int", -(2**31), id="int"),
        pytest.param("bigint", 2**63 - 1, id="bigint"),
        pytest.param("float8", 0.1 + 0.2, id="float"),
        pytest.param("float8", 1e-300, id="small float"),
        pytest.param("boolean", False, id="boolean"),
        pytest.param("bytea", b"\x00\\\xff", id="bytes"),
        pytest.param("timestamptz", datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC), id="time"),
        pytest.param("text", "", id="empty"),
        pytest.param("jsonb", None, id="null"),
    ],
)
async def test_values_of_each_type(connection: Connection, cast: LiteralString, value: Value, prepare: bool) -> None:
    same = statement("same", "What it is given.", "SELECT %(value)s::" + cast)
    assert await connection.call(same, {"value": value}, prepare=prepare) == [(value,)]


async def test_texts_are_values_of_any_type(connection: Connection) -> None:
    several = statement(
        "several",
        "Values in their text form.",
        "SELECT %(json)s::jsonb, %(entries)s::bytea[], %(words)s::tsquery::text",
    )
    values: dict[str, Value] = {"json": '{"a": [1]}', "entries": bytes_literal([b"\x00a", b""]), "words": "a & b"}
    assert await connection.call(several, values) == [({"a": [1]}, [b"\x00a", b""], "'a' & 'b'")]


async def test_few_statements_are_prepared(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_PREPARED", 3)
    texts: list[LiteralString] = ["SELECT 1", "SELECT 2", "SELECT 3", "SELECT 4", "SELECT 5"]
    for _ in range(2):
        for i, text in enumerate(texts):
            # Of one name: the text decides.
            assert await connection.call(statement("several", "A number.", text), {}) == [(i + 1,)]
    assert await connection.call(ONE, {}, prepare=False) == [(1,)]
    cursor = await connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'registry %'")
    assert await cursor.fetchone() == (3,)


async def test_values_longer_than_any_buffer(connection: Connection) -> None:
    text = "0123456789abcdef" * (1 << 20)
    assert await connection.call(LENGTH, {"text": text}) == [(len(text), text)]


@pytest.mark.parametrize(
    ("called", "values", "error"),
    [
        pytest.param(DIVIDE, {"by": 0}, psycopg.errors.DivisionByZero, id="executed"),
        pytest.param(WRONG, {}, psycopg.errors.UndefinedTable, id="prepared"),
        pytest.param(LENGTH, {"text": "a\x00b"}, psycopg.DataError, id="value"),
        pytest.param(LENGTH, {"text": "\ud800"}, UnicodeEncodeError, id="not Unicode"),
    ],
)
async def test_a_failure_leaves_the_connection_usable(
    connection: Connection, called: Statement, values: dict[str, Value], error: type[Exception]
) -> None:
    for _ in range(2):
        with pytest.raises(error):
            await connection.call(called, values)
    assert await connection.call(ONE, {}) == [(1,)]
    cursor = await connection.execute("SELECT 2")
    assert await cursor.fetchone() == (2,)
    assert await connection.call(DIVIDE, {"by": 1}) == [(1,)]


@pytest.mark.parametrize("command", ["DEALLOCATE ALL", "DROP TABLE IF EXISTS nowhere"])
async def test_deallocated_statements_are_prepared_again(connection: Connection, command: LiteralString) -> None:
    assert await connection.call(DIVIDE, {"by": 1}) == [(1,)]
    await connection.execute(command)
    assert await connection.call(DIVIDE, {"by": 1}) == [(1,)]


async def test_statements_of_one_name_may_differ(connection: Connection) -> None:
    texts: list[LiteralString] = ["SELECT 1::bigint", "SELECT 2::bigint, 3::bigint"]
    named = [statement("page", "One of two forms.", text) for text in texts]
    expected: list[list[tuple[object, ...]]] = [[(1,)], [(2, 3)]]
    for _ in range(2):
        assert [await connection.call(one, {}) for one in named] == expected
    await connection.execute("DEALLOCATE ALL")
    assert [await connection.call(one, {}) for one in reversed(named)] == expected[::-1]
    assert [await connection.call(one, {}) for one in named] == expected


async def test_calls_take_turns(connection: Connection) -> None:
    answers = await asyncio.gather(*(connection.call(LENGTH, {"text": "x" * n}) for n in range(20)))
    assert [rows[0][0] for rows in answers] == list(range(20))


async def test_beyond_its_limit_a_call_closes_the_connection(connection: Connection) -> None:
    connection.call_limit_seconds = 0.05
    with pytest.raises(CallTimeout):
        await connection.call(SLEEP, {})
    assert connection.closed


def _announced_waits(monkeypatch: pytest.MonkeyPatch) -> asyncio.Semaphore:
    """Returns a semaphore that is released each time that a call begins to wait for PostgreSQL."""
    waits = asyncio.Semaphore(0)
    wait = exchange.Exchange._wait

    def announced(self: exchange.Exchange, done: exchange.Done, deadline: float) -> None:
        waits.release()
        wait(self, done, deadline)

    monkeypatch.setattr(exchange.Exchange, "_wait", announced)
    return waits


async def test_a_cancelled_call_closes_the_connection(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    await connection.call(NAP, {"seconds": 0})
    waits = _announced_waits(monkeypatch)
    calling = asyncio.create_task(connection.call(NAP, {"seconds": 600}))
    await waits.acquire()
    calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    assert calling.cancelled()
    assert connection.closed


@pytest.mark.parametrize("prepared", [True, False])
async def test_a_cancelled_call_may_finish_its_statement(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, *, prepared: bool
) -> None:
    if prepared:
        await connection.call(SLEEP_SHORTLY, {})
    waits = _announced_waits(monkeypatch)
    calling = asyncio.create_task(connection.call(SLEEP_SHORTLY, {}, finishes=True))
    await waits.acquire()
    calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    assert calling.cancelled()
    assert await connection.call(SOME, {"count": 2}) == [(1, None), (2, None)]
    assert await connection.call(SLEEP_SHORTLY, {}) == [("",)]


@pytest.mark.parametrize("end", ["limit", "cut", "cancelled again"])
async def test_a_cancelled_call_that_cannot_finish(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    await connection.call(NAP, {"seconds": 0})
    if end == "limit":
        connection.call_limit_seconds = 0.05
    waits = _announced_waits(monkeypatch)
    calling = asyncio.create_task(connection.call(NAP, {"seconds": 600}, finishes=True))
    await waits.acquire()
    calling.cancel()
    await asyncio.sleep(0)
    if end == "cut":
        connection.abort()
    elif end == "cancelled again":
        calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    assert calling.cancelled()
    assert connection.closed


@pytest.mark.parametrize("lost", ["ended by PostgreSQL", "cut", "closed before"])
async def test_a_lost_connection(connection: Connection, lost: str) -> None:
    await connection.call(ONE, {})
    if lost == "ended by PostgreSQL":
        with pytest.raises(psycopg.OperationalError):
            await connection.call(END, {})
    else:
        connection.abort() if lost == "cut" else connection.finish()
        with pytest.raises(psycopg.OperationalError):
            await connection.call(ONE, {})
    assert connection.closed


class Answer:
    """What a call that nothing waits for has ended with."""

    def __init__(self) -> None:
        self.rows: list[Record] = []
        self.error: Exception | None = None
        self.count = 0
        self._came = asyncio.Event()

    def __call__(self, rows: Sequence[Record], error: Exception | None) -> None:
        self.rows, self.error = list(rows), error
        self.count += 1
        self._came.set()

    async def come(self) -> Answer:
        async with asyncio.timeout(30):
            await self._came.wait()
        return self


async def test_a_call_that_nothing_waits_for(connection: Connection) -> None:
    some = {"count": 3}
    assert not connection.begin(SOME, some, Answer())  # the first call of a connection prepares
    rows = await connection.call(SOME, some)
    answers = []
    for _ in range(3):
        answer = Answer()
        assert connection.begin(SOME, some, answer)
        assert answer.count == 0
        assert not connection.begin(SOME, some, Answer())  # one at a time
        answers.append(await answer.come())
    assert [(answer.rows, answer.error, answer.count) for answer in answers] == [(rows, None, 1)] * 3
    assert not connection.begin(ONE, {}, Answer())
    assert await connection.call(ONE, {}) == [(1,)]


async def test_a_call_that_nothing_waits_for_and_that_fails(connection: Connection) -> None:
    await connection.call(DIVIDE, {"by": 1})
    divided, deallocated = Answer(), Answer()
    assert connection.begin(DIVIDE, {"by": 0}, divided)
    assert isinstance((await divided.come()).error, psycopg.errors.DivisionByZero)
    await connection.execute("DEALLOCATE ALL")
    assert connection.begin(DIVIDE, {"by": 1}, deallocated)
    assert isinstance((await deallocated.come()).error, psycopg.errors.InvalidSqlStatementName)
    assert not connection.begin(DIVIDE, {"by": 1}, Answer())  # it must be prepared again
    connection.call_limit_seconds = 0.05
    with pytest.raises(CallTimeout):
        await connection.call(SLEEP, {})
    assert not connection.begin(DIVIDE, {"by": 1}, Answer())


@pytest.mark.parametrize("end", ["limit", "closed", "cut", "ended by PostgreSQL"])
async def test_a_call_that_nothing_waits_for_and_that_loses_its_connection(
    connection: Connection, postgres_server: str, end: str
) -> None:
    await connection.call(NAP, {"seconds": 0})
    if end == "limit":
        connection.call_limit_seconds = 0.05
    answer = Answer()
    assert connection.begin(NAP, {"seconds": 600}, answer)
    if end == "closed":
        await connection.close()
    elif end == "cut":
        connection.abort()
    elif end == "ended by PostgreSQL":
        await _terminate(postgres_server, connection)
    error = (await answer.come()).error
    assert isinstance(error, CallTimeout if end == "limit" else psycopg.OperationalError)
    assert connection.closed
    assert answer.count == 1


async def test_an_idle_connection_that_is_lost_is_closed(connection: Connection, postgres_server: str) -> None:
    await connection.call(ONE, {})
    await _terminate(postgres_server, connection)
    async with asyncio.timeout(30):
        await _wait_until_closed(connection)
    with pytest.raises(psycopg.OperationalError):
        await connection.call(ONE, {})


@pytest.mark.parametrize("run", [on_asyncio, on_uvloop])
@pytest.mark.parametrize(
    ("seen", "poll_seconds"),
    [
        pytest.param(20, 600, id="in an answer"),
        pytest.param(60_000, 600, id="in a long answer"),
        pytest.param(1 << 20, 0.1, id="behind an answer"),
        pytest.param(None, 600, id="while idle"),
    ],
)
def test_a_reset_behind_data_is_noticed(
    run: Callable[[Any], None],
    postgres_server: str,
    monkeypatch: pytest.MonkeyPatch,
    seen: int | None,
    poll_seconds: float,
) -> None:
    """As when PostgreSQL recovers from a crash: its last message and the reset of the connection come together."""
    monkeypatch.setattr(exchange, "_POLL_SECONDS", poll_seconds)

    async def lose(connection: Connection, relay: Relay) -> None:
        count = {"count": 100_000 if seen == 60_000 else 2}
        rows = await connection.call(SOME, count)
        relay.reset_after(seen or 1 << 20)
        if seen is None:
            await _terminate(postgres_server, connection)
        calling = asyncio.create_task(connection.call(SOME, count)) if seen is not None else None
        await asyncio.sleep(0)
        assert relay.was_reset.wait(30)  # so that the event loop sees both at once
        if calling is None:
            await _wait_until_closed(connection)
        elif seen == 1 << 20:
            assert await calling == rows
        else:
            with pytest.raises(psycopg.OperationalError, match=r"closed|lost|reset|no connection"):
                await calling
        with pytest.raises(psycopg.OperationalError, match=r"closed|lost|reset|no connection"):
            await connection.call(SOME, count)

    async def connect_and_lose() -> None:
        with relayed(postgres_server) as (relay, url):
            connection = await session.connect(url, "test")
            try:
                async with asyncio.timeout(30):
                    await lose(connection, relay)
            finally:
                await connection.close()

    run(connect_and_lose)


async def test_a_shorter_limit_holds_after_a_longer_one(connection: Connection) -> None:
    connection.call_limit_seconds = 600
    await connection.call(ONE, {})
    connection.call_limit_seconds = 0.05
    async with asyncio.timeout(30):
        with pytest.raises(CallTimeout):
            await connection.call(SLEEP, {})


async def _wait_until_closed(connection: Connection) -> None:
    """Waits until the connection is closed."""
    while not connection.closed:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def _terminate(postgres_server: str, connection: Connection) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_server, autocommit=True) as other:
        await other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
