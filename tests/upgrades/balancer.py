"""A TCP load balancer in front of servers, with readiness checks and draining."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from types import TracebackType
from typing import Self

# How often it asks each server whether it is ready.
PROBE_SECONDS = 0.1


@dataclass(slots=True, eq=False)
class Backend:
    """`drains`: it gets no new connection, whatever it says of itself."""

    port: int
    ready: bool = False
    drains: bool = False
    connections: int = 0


class Balancer:
    """Listens on loopback. A new connection goes to the ready server that has the fewest."""

    def __init__(self) -> None:
        self.backends: list[Backend] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self._probing = asyncio.create_task(self._probe())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in (self._probing, *self._tasks):
            task.cancel()
        await asyncio.gather(self._probing, *self._tasks, return_exceptions=True)

    async def add(self, port: int) -> Backend:
        """Returns when the server is ready."""
        backend = Backend(port)
        self.backends.append(backend)
        async with asyncio.timeout(60):
            while not backend.ready:  # noqa: ASYNC110 (it is what the probe finds)
                await asyncio.sleep(PROBE_SECONDS / 2)
        return backend

    def remove(self, backend: Backend) -> None:
        self.backends.remove(backend)

    async def _probe(self) -> None:
        while True:
            for backend in list(self.backends):
                backend.ready = await _is_ready(backend.port)
            await asyncio.sleep(PROBE_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._pass_on(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for backend in sorted(self.backends, key=lambda one: one.connections):
            if not backend.ready or backend.drains:
                continue
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", backend.port)
            except OSError:
                backend.ready = False
                continue
            backend.connections += 1
            try:
                await _carry_both(reader, writer, far_reader, far_writer)
            finally:
                backend.connections -= 1
                far_writer.close()
            return


async def _carry_both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Until one side ends: the other has what was sent to it by then."""
    carrying = [asyncio.create_task(_carry(reader, far_writer)), asyncio.create_task(_carry(far_reader, writer))]
    try:
        await asyncio.wait(carrying, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in carrying:
            task.cancel()
        await asyncio.gather(*carrying, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def _is_ready(port: int) -> bool:
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: balancer\r\nConnection: close\r\n\r\n")
                return (await reader.readline()).split(b" ")[1:2] == [b"200"]
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False
