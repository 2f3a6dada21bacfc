"""Closes connections whose TLS handshake is cancelled, in clients of tests: a pytest plugin.

httpcore 1.0 closes them if the handshake fails, but not if its task is cancelled. The collector then reports the open
socket as a ResourceWarning, which fails whichever test is running, sooner or later, on a machine so busy that a time
limit ends within a handshake.
"""

from __future__ import annotations

from typing import Any

from httpcore import AsyncNetworkStream
from httpcore._backends.anyio import AnyIOStream

_start_tls = AnyIOStream.start_tls


async def _start_tls_or_close(self: AnyIOStream, *arguments: Any, **options: Any) -> AsyncNetworkStream:
    try:
        return await _start_tls(self, *arguments, **options)
    except BaseException:
        await self.aclose()
        raise


AnyIOStream.start_tls = _start_tls_or_close  # type: ignore[method-assign]
