"""gzip for long answers, where the client takes it.

What is compressed takes some 15 µs a kilobyte, so it happens in a thread, in the turn of the request's tenant; zlib
gives the interpreter back meanwhile. The fastest level, as in kube-apiserver: clients are near, and processors dear.

Follows apiserver pkg/endpoints/handlers/responsewriters/writers.go (negotiateContentEncoding, deferredResponseWriter).
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import Final

from registry.flowcontrol.evaluation import aside

# Smaller answers are not worth compressing (writers.go, defaultGzipThresholdBytes).
GZIP_THRESHOLD_BYTES: Final = 128 * 1024
GZIP_HEADERS: Final = ((b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
_LEVEL: Final = 1
_GZIP: Final = 16 + zlib.MAX_WBITS


def accepts_gzip(accept_encoding: bytes) -> bool:
    """Whether `gzip` is among the encodings. With a parameter it is not, as in kube-apiserver: `gzip;q=0` is none."""
    return b"gzip" in accept_encoding and any(token.strip() == b"gzip" for token in accept_encoding.split(b","))


class Gzip:
    """One compressed stream: the client joins what `compress` returns of each piece, and `finish` at the end."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    async def compress(self, piece: bytes) -> bytes:
        """Raises TooManyRequests where too much of the tenant waits for a thread."""
        return await aside(partial(self._packer.compress, piece))

    def finish(self) -> bytes:
        return self._packer.flush()
