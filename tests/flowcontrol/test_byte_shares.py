"""Shares of the bytes that uploads hold."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from registry.flowcontrol import byte_shares
from registry.flowcontrol.byte_shares import (
    SMALL_BYTES,
    Answers,
    HeldAnswer,
    Message,
    NeedsMoreRoom,
    Receive,
    Upload,
    Uploads,
)
from registry.flowcontrol.fair_queue import TooManyRequests

LIMIT = 1000
# Beside what the small bodies have.
WHOLE = 1142


@pytest.fixture(autouse=True)
def _own_answer() -> Iterator[None]:
    """What these tests make the current answer is not that of later ones."""
    before = byte_shares._current.set(None)
    yield
    byte_shares._current.reset(before)


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.flowcontrol.byte_shares.SMALL_BYTES", 0)


def pieces(*sizes: int) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": b"x" * size, "more_body": True} for size in sizes]

    async def receive() -> Message:
        return messages.pop(0)

    return receive


async def held(uploads: Uploads, tenant: str, wanted: int) -> int:
    """How much of what a tenant wants it gets, ten bytes at a time."""
    receive = Upload(uploads, tenant).receiving(pieces(*[10] * (wanted // 10)))
    for count in range(wanted // 10):
        try:
            await receive()
        except TooManyRequests:
            return count * 10
    return wanted


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize(
    "wanted, expected",
    [
        ([100], [100]),
        ([LIMIT], [500]),
        ([LIMIT, LIMIT], [500, 250]),
        ([LIMIT, LIMIT, LIMIT], [500, 250, 120]),
        ([100, LIMIT], [100, 450]),
        ([LIMIT, 100], [500, 100]),
    ],
    ids=["little", "a tenant alone", "two", "three", "one of little, one of much", "one of much, one of little"],
)
async def test_a_tenant_may_hold_as_much_as_is_free(wanted: list[int], expected: list[int]) -> None:
    uploads = Uploads(WHOLE)
    assert [await held(uploads, f"t{number}", count) for number, count in enumerate(wanted)] == expected
    assert uploads.held_bytes == sum(expected)


@pytest.mark.usefixtures("all_are_large")
async def test_answered_bytes_are_released() -> None:
    uploads = Uploads(WHOLE)
    first, second = Upload(uploads, "a"), Upload(uploads, "a")
    for upload in (first, second):
        receive = upload.receiving(pieces(150, 100))
        await receive()
        await receive()
    with pytest.raises(TooManyRequests):
        await Upload(uploads, "a").receiving(pieces(1))()
    first.end()
    first.end()
    assert uploads.held_bytes == 250
    await Upload(uploads, "a").receiving(pieces(125))()
    second.end()
    assert uploads.held_bytes == 125


@pytest.mark.usefixtures("all_are_large")
async def test_refused_bytes_are_not_held() -> None:
    uploads = Uploads(WHOLE)
    upload: Upload = Upload(uploads, "a")
    receive = upload.receiving(pieces(400, 400))
    await receive()
    with pytest.raises(TooManyRequests):
        await receive()
    upload.end()
    assert uploads.held_bytes == 0


async def test_small_bodies_have_room_beside_large_ones() -> None:
    uploads = Uploads(16 * MEGABYTE)
    large = []
    for _ in range(7):
        large.append(Upload(uploads, "a"))
        await large[-1].receiving(pieces(MEGABYTE))()
    with pytest.raises(TooManyRequests):
        await Upload(uploads, "a").receiving(pieces(MEGABYTE))()
    small = Upload(uploads, "a")
    await small.receiving(pieces(SMALL_BYTES))()
    assert uploads.held_bytes == 7 * MEGABYTE + SMALL_BYTES

    grows = Upload(uploads, "b").receiving(pieces(SMALL_BYTES, 1))
    await grows()
    await grows()
    assert (uploads.small.held_bytes, uploads.large.held_bytes) == (SMALL_BYTES, 7 * MEGABYTE + SMALL_BYTES + 1)
    for upload in (*large, small):
        upload.end()
    assert uploads.held_bytes == SMALL_BYTES + 1


MEGABYTE = 1 << 20


def test_the_longest_stalled_answer_is_aborted_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[str] = []
    answers = Answers(8 * MEGABYTE)
    made = {name: answers.begin("a", lambda name=name: cut.append(name)) for name in ("old", "young", "reads")}  # type: ignore[misc]
    for answer in made.values():
        answer.hold(MEGABYTE)
    monkeypatch.setattr("registry.flowcontrol.byte_shares.monotonic", lambda: 100.0)
    made["old"].waits_since, made["young"].waits_since = 10.0, 99.5
    with pytest.raises(TooManyRequests):
        answers.begin("a", None).hold(2 * MEGABYTE)
    assert cut == ["old"]
    made["old"].end()
    answers.begin("a", None).hold(2 * MEGABYTE)
    with pytest.raises(TooManyRequests):
        answers.begin("a", None).hold(MEGABYTE)
    assert cut == ["old"], "the other one has waited for a moment only"


def test_answers_leave_room_for_other_tenants() -> None:
    answers = Answers(8 * MEGABYTE)
    first = answers.begin("a", None)
    first.hold(4 * MEGABYTE)
    with pytest.raises(TooManyRequests):
        first.hold(5 * MEGABYTE)
    second = answers.begin("b", None)
    second.hold(2 * MEGABYTE)
    first.hold(MEGABYTE)
    second.hold(3 * MEGABYTE)
    first.end()
    second.end()
    first.hold(4 * MEGABYTE)
    assert (first.held_bytes, second.held_bytes) == (0, 0)
    answers.begin("c", None).hold(4 * MEGABYTE)


def test_small_answers_are_not_counted() -> None:
    answer = Answers(MEGABYTE).begin("a", None)
    answer.hold(SMALL_BYTES)
    assert answer.held_bytes == 0


async def test_lists_wait_for_room_in_the_order_in_which_they_came() -> None:
    answers = Answers(64 * MEGABYTE)
    reading = [answers.begin("a", None) for _ in range(2)]
    for answer in reading:  # nothing is known of such lists yet: each is taken to need 16 MiB
        await answer.reserve("things")
    order: list[str] = []

    async def another(name: str) -> HeldAnswer:
        answer = answers.begin("a", None)
        await answer.reserve("things")
        order.append(name)
        await answer.hold_part(4 * MEGABYTE)
        return answer

    waiting = [asyncio.create_task(another(name)) for name in "bcdef"]
    await asyncio.sleep(0)
    other = answers.begin("b", None)
    await other.reserve("things")
    other.end()
    assert order == []
    for answer in reading:
        await answer.hold_part(4 * MEGABYTE)  # the first parts are shorter, and leave room
    await waiting[0]
    assert (order, reading[0].held_bytes) == (["b"], 5 * MEGABYTE)
    for answer in (*reading, waiting[0].result()):
        answer.end()
    await asyncio.gather(*waiting[1:])
    assert order == list("bcdef")
    known = answers.begin("b", None)
    await known.reserve("things")
    assert known.held_bytes == 5 * MEGABYTE, "as much as the last one needed"


async def test_a_list_that_waits_while_others_are_woken_is_woken_in_its_turn() -> None:
    answers = Answers(64 * MEGABYTE)
    reading = [answers.begin("a", None) for _ in range(2)]
    for answer in reading:
        await answer.reserve("things")

    async def list_twice() -> HeldAnswer:
        await answers.begin("a", None).reserve("things")
        second = answers.begin("a", None)
        await second.reserve("things")  # before the other list that was woken goes on
        return second

    twice = asyncio.create_task(list_twice())
    once = answers.begin("a", None)
    other = asyncio.create_task(once.reserve("things"))
    await asyncio.sleep(0)
    for answer in reading:
        answer.end()
    await other
    assert not twice.done()
    once.end()
    async with asyncio.timeout(1):
        assert (await twice).held_bytes == 16 * MEGABYTE


async def test_a_list_that_finds_no_room_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.flowcontrol.byte_shares.STALLED_SECONDS", 0.01)
    cut: list[str] = []
    answers = Answers(32 * MEGABYTE)
    reads, stalls = answers.begin("a", None), answers.begin("a", lambda: cut.append("stalls"))
    for answer in (reads, stalls):
        await answer.reserve("things")
    stalls.waits_since = time.monotonic() - 1
    refused = answers.begin("a", None)
    with pytest.raises(TooManyRequests):
        await refused.reserve("things")
    assert set(cut) == {"stalls"}
    reads.end()
    await refused.reserve("things")
    assert refused.held_bytes == 8 * MEGABYTE


async def test_a_list_that_is_cancelled_while_it_waits_leaves_its_place_to_the_next() -> None:
    answers = Answers(32 * MEGABYTE)
    first, second = answers.begin("a", None), answers.begin("a", None)
    await first.reserve("things")
    await second.reserve("things")
    gone, next_ = answers.begin("a", None), answers.begin("a", None)
    leaving, waiting = asyncio.create_task(gone.reserve("things")), asyncio.create_task(next_.reserve("things"))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    first.end()
    await waiting
    assert (gone.held_bytes, next_.held_bytes) == (0, 8 * MEGABYTE)


async def test_of_many_lists_that_wait_only_the_first_ends_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.flowcontrol.byte_shares.STALLED_SECONDS", 0.2)
    cut: asyncio.Queue[int] = asyncio.Queue()
    answers = Answers(32 * MEGABYTE)
    stalls = [answers.begin("a", lambda i=i: cut.put_nowait(i)) for i in range(2)]  # type: ignore[misc]
    for i, answer in enumerate(stalls):
        await answer.reserve("things")
        answer.waits_since = time.monotonic() - 10 + i
    waiting = [asyncio.create_task(answers.begin("a", None).reserve("things")) for _ in range(20)]
    assert await cut.get() == 0, "the one that has stalled for the longest time"
    assert cut.empty()
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_a_request_that_starts_again_keeps_its_room() -> None:
    answers = Answers(32 * MEGABYTE)
    other, again = answers.begin("a", None), answers.begin("a", None)
    await other.reserve("things")
    await again.reserve("things")
    async with asyncio.timeout(1):
        await again.reserve("things")  # there is no room for a second one
    assert again.held_bytes == 8 * MEGABYTE


async def test_a_list_that_needs_more_than_the_last_one_starts_again() -> None:
    answers = Answers(32 * MEGABYTE)
    answers.learn("things", SMALL_BYTES)
    reading = [answers.begin("a", None) for _ in range(3)]
    for answer in reading:
        await answer.reserve("things")
        assert answer.held_bytes == 0
    await reading[0].hold_part(8 * MEGABYTE)
    with pytest.raises(NeedsMoreRoom):
        await reading[1].hold_part(8 * MEGABYTE)
    assert reading[1].held_bytes == 0
    again = asyncio.create_task(reading[1].reserve("things"))
    await asyncio.sleep(0)
    assert not again.done()
    reading[0].end()
    await again
    assert reading[1].held_bytes == 8 * MEGABYTE, "what a tenant may always have"
    await reading[1].hold_part(6 * MEGABYTE)
    with pytest.raises(TooManyRequests) as error:
        await reading[1].hold_part(40 * MEGABYTE)
    assert not isinstance(error.value, NeedsMoreRoom), "a part of it may have been sent"


async def test_a_list_does_not_start_again_for_ever() -> None:
    answers = Answers(32 * MEGABYTE)
    answer = answers.begin("a", None)
    for _ in range(2):
        await answer.reserve("things")
        with pytest.raises(NeedsMoreRoom):
            await answer.hold_part(40 * MEGABYTE)
    await answer.reserve("things")
    with pytest.raises(TooManyRequests) as error:
        await answer.hold_part(40 * MEGABYTE)
    assert not isinstance(error.value, NeedsMoreRoom)


async def test_a_list_that_has_started_again_often_waits_for_room() -> None:
    answers = Answers(64 * MEGABYTE)
    others, answer = [answers.begin(tenant, None) for tenant in "bc"], answers.begin("a", None)
    for other in others:
        await other.reserve("others")
    for _ in range(2):
        await answer.reserve("things")
        with pytest.raises(NeedsMoreRoom):
            await answer.hold_part(20 * MEGABYTE)
        answers.learn("things", MEGABYTE)  # by a shorter list
    await answer.reserve("things")
    growing = asyncio.create_task(answer.hold_part(20 * MEGABYTE))
    await asyncio.sleep(0)
    assert not growing.done()
    for other in others:
        other.end()
    async with asyncio.timeout(5):
        await growing
    assert answer.held_bytes == 25 * MEGABYTE


async def test_lists_that_have_begun_wait_for_room_for_longer_parts() -> None:
    answers = Answers(64 * MEGABYTE)
    reading = [answers.begin("a", None) for _ in range(4)]
    for answer in reading:
        answer.hold(8 * MEGABYTE)  # the whole share of the tenant
        await answer.hold_part(4 * MEGABYTE)
    ended: list[int] = []

    async def read_on(i: int) -> None:
        await reading[i].hold_part(8 * MEGABYTE)
        assert sum(answer.held_bytes for answer in reading) <= (32 + 2) * MEGABYTE, "one may exceed the share"
        ended.append(i)
        reading[i].end()

    async with asyncio.timeout(5):
        await asyncio.gather(*map(read_on, range(4)))
    assert sorted(ended) == [0, 1, 2, 3]


async def test_a_list_is_expected_to_need_what_the_longest_part_of_the_last_one_needed() -> None:
    answers = Answers(64 * MEGABYTE)
    for _ in range(2):
        answer = answers.begin("a", None)
        await answer.reserve("things")
        for count in (MEGABYTE, 4 * MEGABYTE, 2 * MEGABYTE):
            await answer.hold_part(count)
        answer.end_parts()
        answer.end()
        following = answers.begin("a", None)
        await following.reserve("things")
        assert following.held_bytes == 5 * MEGABYTE
        await following.hold_part(MEGABYTE)
        assert following.held_bytes == 5 * MEGABYTE, "its other parts may be longer"
        following.end()


async def test_a_watch_holds_what_its_longest_page_needs_until_its_state_has_ended() -> None:
    answers = Answers(64 * MEGABYTE)
    answer = answers.begin("a", None)
    await answer.reserve("things")
    for count in (4 * MEGABYTE, 20 * MEGABYTE, MEGABYTE):
        await answer.hold_page(count, more=True)
    assert answer.held_bytes == 20 * MEGABYTE, "the next page may be as long"
    await answer.hold_page(2 * MEGABYTE, more=False)
    assert answer.held_bytes == 2 * MEGABYTE
    answer.end()
    following = answers.begin("a", None)
    await following.reserve("things")
    assert following.held_bytes == 16 * MEGABYTE, "a quarter of the limit at most"
    following.end()


async def test_a_write_waits_for_room_before_its_commit_and_its_answer_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("registry.flowcontrol.byte_shares.STALLED_SECONDS", 0.01)
    answers = Answers(64 * MEGABYTE)
    lists = [answers.begin("a", None) for _ in range(2)]
    for one in lists:
        await one.reserve("things")
    refused, write = answers.begin("a", None), answers.begin("a", None)
    with pytest.raises(TooManyRequests):
        await refused.before_commit(4 * MEGABYTE)
    committing = asyncio.create_task(write.before_commit(4 * MEGABYTE))
    await asyncio.sleep(0)
    assert not committing.done()
    lists[0].end()
    await committing
    assert write.held_bytes == 4 * MEGABYTE
    await write.hold_body(20 * MEGABYTE)  # beyond its tenant's share: it has been committed
    assert write.held_bytes == 20 * MEGABYTE
    with pytest.raises(TooManyRequests):
        await answers.begin("a", None).hold_body(24 * MEGABYTE)
    with pytest.raises(TooManyRequests):
        await write.hold_part(60 * MEGABYTE)  # of a deleted collection, of which nobody has waited for as much
    write.end()
    assert write.held_bytes == 0


async def test_a_list_whose_request_has_ended_while_it_waited_holds_nothing() -> None:
    answers = Answers(64 * MEGABYTE)
    first, beyond, waits = (answers.begin("a", None) for _ in range(3))
    first.hold(16 * MEGABYTE)
    for answer in (beyond, waits):
        answer.hold(8 * MEGABYTE)
        await answer.hold_part(4 * MEGABYTE)
    await beyond.hold_part(8 * MEGABYTE)
    waiting = asyncio.create_task(waits.hold_part(8 * MEGABYTE))
    await asyncio.sleep(0)
    assert not waiting.done()
    for answer in (waits, beyond, first):
        answer.end()
    await waiting
    assert waits.held_bytes == 0
    other = answers.begin("a", None)
    other.hold(32 * MEGABYTE)  # the whole share is free again


async def test_lists_beyond_the_shares_of_their_tenants_leave_room_for_others() -> None:
    answers = Answers(64 * MEGABYTE)
    for tenant in "abcdefgh":
        answer = answers.begin(tenant, None)
        answer.hold(4 * MEGABYTE)
        await answer.hold_part(3 * MEGABYTE)
    growing = asyncio.create_task(answer.hold_part(24 * MEGABYTE))
    await asyncio.sleep(0.1)  # it goes on waiting
    assert not growing.done()
    answers.begin("z", None).hold(8 * MEGABYTE)
    growing.cancel()
