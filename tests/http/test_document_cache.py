"""The document cache: what is kept, and how often documents are rendered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from registry.flowcontrol import evaluation
from registry.flowcontrol.byte_shares import MIB, Answers
from registry.flowcontrol.evaluation import Evaluations
from registry.flowcontrol.fair_queue import TooManyRequests
from registry.http.documents.answers import Document, DocumentCache, document


@pytest.fixture(autouse=True)
def _evaluating() -> Iterator[None]:
    """Large documents are made beside the event loop."""
    evaluations = Evaluations()
    before = evaluation._current.set(None)
    evaluations.begin("t")
    yield
    evaluation._current.reset(before)
    evaluations.close()


def test_the_etag_is_computed_from_the_bytes() -> None:
    assert document(b"a").tag == document(b"a").tag != document(b"b").tag
    assert document(b"a", "T").tag == "T"


@pytest.mark.parametrize("aside", [False, True])
async def test_the_cache_is_bounded_in_bytes(aside: bool) -> None:
    made = DocumentCache(max_bytes=10)
    calls: list[str] = []

    async def get(name: str, size: int) -> Document:
        def make() -> Document:
            calls.append(name)
            return Document(b"x" * size, name)

        return await made.get(name, make, 10**6 if aside else 0)

    for name in ("a", "b", "a"):
        assert (await get(name, 4)).tag == name
    assert calls == ["a", "b"]
    await get("c", 4)  # the eldest, b, goes
    await get("a", 4)
    await get("b", 4)
    assert calls == ["a", "b", "c", "b"]
    await get("large", 11)  # is not kept, and drives nothing out
    await get("large", 11)
    await get("b", 4)
    assert calls == ["a", "b", "c", "b", "large", "large"]


@pytest.mark.parametrize("expected_bytes, is_aside", [(1024, False), (MIB, True)])
async def test_a_document_that_will_be_long_is_made_beside_the_event_loop(expected_bytes: int, is_aside: bool) -> None:
    """As that of the built-in kinds, which is made from no definitions of the tenant's own."""
    made, threads = DocumentCache(), list[int]()

    def make() -> Document:
        threads.append(threading.get_ident())
        return Document(b"x", "a")

    await made.get("a", make, 0, lambda: expected_bytes)
    assert [one != threading.get_ident() for one in threads] == [is_aside]


async def test_a_document_without_room_is_refused_before_it_is_made() -> None:
    answers = Answers(10 * MIB)
    made, calls = DocumentCache(), list[str]()

    def make() -> Document:
        calls.append("made")
        return Document(b"x", "a")

    answer = answers.begin("t", None)
    with pytest.raises(TooManyRequests):
        await made.get("a", make, 0, lambda: 8 * MIB)
    assert calls == []
    assert (await made.get("a", make, 0, lambda: 2 * MIB)).tag == "a"
    assert answer.held_bytes == 2 * MIB
    assert (await made.get("a", make, 0, lambda: 8 * MIB)).tag == "a"  # which is cached
    answer.end()


async def test_concurrent_requests_share_one_document_and_cancel_independently() -> None:
    made = DocumentCache()
    go = threading.Event()
    calls: list[int] = []

    def make() -> Document:
        calls.append(1)
        go.wait(30)
        return Document(b"x", "T")

    asked = [asyncio.create_task(made.get("k", make, 10**6)) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()  # went away while it was being made
    go.set()
    assert [one.tag for one in await asyncio.gather(*asked[1:])] == ["T", "T"]
    assert calls == [1]


async def test_a_failed_build_is_retried() -> None:
    made = DocumentCache()

    def fail() -> Document:
        raise ValueError("no")

    for aside in (True, False):
        with pytest.raises(ValueError, match="no"):
            await made.get("k", fail, 10**6 if aside else 0)
    assert (await made.get("k", lambda: Document(b"x", "T"), 10**6)).tag == "T"
