"""Shares of the bytes that uploads hold."""

from __future__ import annotations

import pytest

from registry.flowcontrol.fair_queue import TooManyRequests
from registry.http.serving.uploads import Message, Receive, Upload, Uploads

LIMIT = 1000


def pieces(*sizes: int) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": b"x" * size, "more_body": True} for size in sizes]

    async def receive() -> Message:
        return messages.pop(0)

    return receive


async def held(uploads: Uploads, tenant: str, wanted: int) -> int:
    """How much of what a tenant wants it gets, ten bytes at a time."""
    receive = uploads.begin(tenant).receiving(pieces(*[10] * (wanted // 10)))
    for count in range(wanted // 10):
        try:
            await receive()
        except TooManyRequests:
            return count * 10
    return wanted


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
async def test_a_tenant_gets_as_much_as_is_free(wanted: list[int], expected: list[int]) -> None:
    uploads = Uploads(LIMIT)
    assert [await held(uploads, f"t{number}", count) for number, count in enumerate(wanted)] == expected
    assert uploads.held_bytes == sum(expected)


async def test_what_is_answered_is_free_again() -> None:
    uploads = Uploads(LIMIT)
    first, second = uploads.begin("a"), uploads.begin("a")
    for upload in (first, second):
        receive = upload.receiving(pieces(150, 100))
        await receive()
        await receive()
    with pytest.raises(TooManyRequests):
        await uploads.begin("a").receiving(pieces(1))()
    first.end()
    first.end()
    assert uploads.held_bytes == 250
    await uploads.begin("a").receiving(pieces(125))()
    second.end()
    assert uploads.held_bytes == 125


async def test_what_is_refused_is_not_held() -> None:
    uploads = Uploads(LIMIT)
    upload: Upload = uploads.begin("a")
    receive = upload.receiving(pieces(400, 400))
    await receive()
    with pytest.raises(TooManyRequests):
        await receive()
    upload.end()
    assert uploads.held_bytes == 0
