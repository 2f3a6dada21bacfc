"""What is written to a TLS connection waits, unencrypted, for a client that does not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from registry.http.serving.tls_pieces import PIECE_BYTES, PiecewiseTransport


class Below(asyncio.Transport):
    """A transport that is full after each two pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[bytes] = []
        self.is_closed = False
        self.when_full: Callable[[], None] = lambda: None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.received.append(bytes(data))
        if len(self.received) % 2 == 0:
            self.when_full()

    def close(self) -> None:
        self.is_closed = True

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True


def test_texts_arrive_in_order_and_before_the_end() -> None:
    below = Below()
    transport = PiecewiseTransport(below)
    below.when_full = transport.pause
    long = bytes(range(256)) * 400
    transport.write(b"head")
    transport.write(long)
    transport.write(b"tail")
    assert [len(text) for text in below.received] == [4, PIECE_BYTES]
    assert transport.get_write_buffer_size() == len(long) - PIECE_BYTES + 4
    transport.close()
    transport.write(b"too late")
    assert (transport.is_closing(), below.is_closed) == (True, False)
    while not transport.flush():
        assert not below.is_closed
    assert b"".join(below.received) == b"head" + long + b"tail"
    assert max(map(len, below.received)) == PIECE_BYTES
    assert below.is_closed
    assert transport.get_write_buffer_size() == 0


def test_what_waits_is_dropped_with_the_connection() -> None:
    below = Below()
    transport = PiecewiseTransport(below)
    below.when_full = transport.pause
    transport.write(bytes(5 * PIECE_BYTES))
    transport.abort()
    assert transport.get_write_buffer_size() == 0
    assert below.is_closed
    assert len(below.received) == 2
