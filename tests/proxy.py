"""A TCP proxy in front of PostgreSQL that injects faults: it freezes, cuts, delays or refuses connections."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on loopback in its own thread; its methods are called from other threads.

    A frozen proxy accepts connections and reads from them, but forwards nothing.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._ready = threading.Event()
        self._flowing: asyncio.Event
        self._delay_seconds = 0.0
        self._refuses = False
        self._swallows = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    def freeze(self) -> None:
        self._call(lambda: self._flowing.clear())

    def thaw(self) -> None:
        self._call(lambda: self._flowing.set())

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def cut(self) -> None:
        """Resets all connections."""
        self._call(self._cut)

    def refuse(self, *, refuses: bool = True) -> None:
        """Resets all connections, and each new one immediately."""
        self._refuses = refuses
        self.cut()

    def swallow(self, *, answers: bool) -> None:
        """Cuts the next connection that carries data: before PostgreSQL receives it, or in place of its answer."""
        self._swallows = "answers" if answers else "calls"

    def delay(self, seconds: float) -> None:
        """Delays each forwarded chunk."""
        self._delay_seconds = seconds

    def url(self, url: str) -> str:
        """The URL of PostgreSQL, through this proxy."""
        return url.replace(f"{self._target[0]}:{self._target[1]}", f"127.0.0.1:{self.port}")

    def redirect(self, port: int) -> None:
        """Sends new connections to another server, like a virtual address that follows the primary, and cuts the others."""
        self._target = (self._target[0], port)
        self.cut()

    def _call(self, function: object) -> None:
        done = threading.Event()

        def run() -> None:
            function()  # type: ignore[operator]
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(30)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._flowing = asyncio.Event()
        self._flowing.set()
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._cut()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        """Waits until all connections have ended."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were aborted close their sockets

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._carry(reader, far_writer, "calls"), self._carry(far_reader, writer, "answers"))
        finally:
            self._writers -= {writer, far_writer}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._flowing.wait()
                if self._swallows == direction:
                    self._swallows = ""
                    break
                if self._delay_seconds:
                    await asyncio.sleep(self._delay_seconds)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
