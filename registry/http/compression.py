"""gzip for long answers, if the client accepts it.

Compression takes some 15 µs per kilobyte, so it runs in a thread, scheduled fairly by tenant; zlib releases the
interpreter meanwhile. The fastest level, as in kube-apiserver: clients are near, and processors dear.

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
    """Whether `gzip` is accepted. As in kube-apiserver, it is not with a parameter: `gzip;q=0`."""
    return b"gzip" in accept_encoding and any(token.strip() == b"gzip" for token in accept_encoding.split(b","))


class Gzip:
    """A compressed stream: the client joins the results of `compress` for each piece, and of `finish`."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)

    async def compress(self, piece: bytes) -> bytes:
        """Compresses a piece. Raises TooManyRequests if too much work of the tenant waits for a thread."""
        return await aside(partial(self._packer.compress, piece))

    def finish(self) -> bytes:
        return self._packer.flush()
