"""Which responses are compressed, and for which clients."""

from __future__ import annotations

import zlib

import pytest

from registry.http.responses import Gzip, accepts_gzip

ACCEPTED = {
    "gzip alone": (b"gzip", True),
    "among others": (b"deflate, gzip ,br", True),
    "nothing": (b"", False),
    "any": (b"*", False),
    "refused": (b"gzip;q=0", False),
    "with a weight, which is not read": (b"gzip;q=1.0", False),
    "another that begins so": (b"gzip-stream, x-gzip", False),
}


@pytest.mark.parametrize(("given", "accepted"), ACCEPTED.values(), ids=ACCEPTED)
def test_gzip_is_for_clients_that_name_it(given: bytes, accepted: bool) -> None:
    assert accepts_gzip(given) is accepted


async def test_pieces_become_one_stream() -> None:
    pieces = [b"a" * 200_000, b"", bytes(range(256)) * 1000]
    packer = Gzip()
    packed = [await packer.compress(piece) for piece in pieces]
    assert zlib.decompress(b"".join(packed) + packer.finish(), 31) == b"".join(pieces)
