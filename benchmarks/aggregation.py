"""The time of a request through the aggregation proxy and without it: `python -m benchmarks.aggregation`.

The aggregated server runs in the client's process, so its own time matters little. Prints the median of the best batch
in microseconds: other work on the machine can only make a batch slower.
"""

from __future__ import annotations

import asyncio
import ssl
import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.aggregation.backend import BASE, Request
from tests.aggregation.test_upgrade import started

_PATH: Final = f"{BASE}/namespaces/default/metrics"
_BATCHES, _REQUESTS = 8, 400


async def _answer(request: Request) -> None:
    await request.answer(b'{"kind":"MetricList","items":[]}', content_type="application/json")


async def measure(port: int, authority: str, token: str) -> float:
    """Returns the median of the best batch, in microseconds."""
    context = ssl.create_default_context(cadata=authority)
    context.check_hostname = False
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    request = f"GET {_PATH} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n".encode()
    medians = []
    for _ in range(_BATCHES):
        times = []
        for _ in range(_REQUESTS):
            began = time.perf_counter()
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r")[0]))
            times.append(time.perf_counter() - began)
            assert head.startswith(b"http/1.1 200"), head
        medians.append(statistics.median(times) * 1e6)
    writer.close()
    return min(medians)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with started(Path(folder), _answer) as (server, behind):
            direct = await measure(behind.port, behind.ca, "none")
            passed_on = await measure(server.port, server.authority.read_text(), server.token)
    print(f"direct {direct:.0f} µs, passed on {passed_on:.0f} µs: {passed_on - direct:.0f} µs more")


if __name__ == "__main__":
    asyncio.run(main())
