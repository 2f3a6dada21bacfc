"""Several serving processes on one port: starts them, restarts those that die, stops them in order.

Each worker has a socket pair with this process: it writes a byte when it serves, and reads the end when this process is
gone. Workers have their own sessions, so that a Ctrl+C of the terminal reaches them once, through this process.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType

from registry.http.serving.server import APPLICATION, STOP_SIGNALS, ServeError, duplicate_listener
from registry.settings.declarations import Settings
from registry.settings.loading import to_environment

logger = logging.getLogger(__name__)

# A worker that dies right after its start will die again: the pause grows each time, up to this.
LONGEST_PAUSE_SECONDS = 10.0
# After the workers' own timeout for requests in flight.
KILL_AFTER_SECONDS = 5.0


@dataclass
class Worker:
    """One place at the port, which `listener` reserves.

    `process` is None if it is dead and will be restarted at `start_at` (of time.monotonic).
    """

    number: int
    listener: socket.socket
    process: subprocess.Popen[bytes] | None = None
    link: socket.socket | None = None
    ready: bool = False
    start_at: float = 0.0
    deaths: int = 0
    started_at: float = field(default=0.0)


class Supervisor:
    """Runs one worker for each listener until a signal to stop."""

    def __init__(
        self,
        settings: Settings,
        listeners: Sequence[socket.socket],
        *,
        application: str = APPLICATION,
        when_ready: Callable[[], None] = lambda: None,
        when_stopping: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._application = application
        self._when_ready = when_ready
        self._when_stopping = when_stopping
        self._workers = [Worker(number, listener) for number, listener in enumerate(listeners)]
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._announced = False

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT. Raises ServeError if a worker fails at the first start."""
        wake, woken = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        previous_fd = signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        previous = {number: signal.signal(number, self._on_signal) for number in STOP_SIGNALS}
        self._selector.register(woken, selectors.EVENT_READ, None)
        try:
            while not self._signals:
                self._start_due()
                self._wait()
            self._when_stopping()
            self._stop()
        except BaseException:
            self._kill()
            raise
        finally:
            signal.set_wakeup_fd(previous_fd)
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._selector.close()
            wake.close()
            woken.close()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)

    def _start_due(self) -> None:
        for worker in self._workers:
            if worker.process is None and time.monotonic() >= worker.start_at:
                self._start(worker)

    def _start(self, worker: Worker) -> None:
        ours, theirs = socket.socketpair()
        listener = duplicate_listener(worker.listener)
        handed = [listener.fileno(), theirs.fileno()]
        worker.process = subprocess.Popen(
            [sys.executable, "-m", "registry", "worker", "--listener", str(handed[0]), "--link", str(handed[1]),
             "--number", str(worker.number), "--application", self._application],
            stdin=subprocess.DEVNULL,
            pass_fds=handed,
            env={**os.environ, **to_environment(self._settings)},
            start_new_session=True,
        )  # fmt: skip
        theirs.close()
        listener.close()
        ours.setblocking(False)
        worker.link, worker.ready, worker.started_at = ours, False, time.monotonic()
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _wait(self) -> None:
        """Waits until a worker writes or ends, a signal arrives, or a start is due."""
        due = [worker.start_at for worker in self._workers if worker.process is None]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        for key, _ in self._selector.select(timeout):
            worker = key.data
            if worker is None:
                with contextlib.suppress(BlockingIOError):
                    while key.fileobj.recv(64):  # type: ignore[union-attr]
                        pass
            elif worker.link is not None:
                self._hear(worker)

    def _hear(self, worker: Worker) -> None:
        assert worker.link is not None
        try:
            message = worker.link.recv(64)
        except ConnectionError:
            message = b""
        if message:
            worker.ready = True
            if not self._announced and all(one.ready for one in self._workers):
                self._announced = True
                self._when_ready()
            return
        self._bury(worker)

    def _bury(self, worker: Worker) -> None:
        """Handles a worker's end, and schedules its restart."""
        assert worker.process is not None
        assert worker.link is not None
        self._selector.unregister(worker.link)
        worker.link.close()
        try:
            code = worker.process.wait(KILL_AFTER_SECONDS)
        except subprocess.TimeoutExpired:  # it closed its link but is still running: of no use
            worker.process.kill()
            code = worker.process.wait()
        was_ready, pid = worker.ready, worker.process.pid
        worker.process, worker.link, worker.ready = None, None, False
        if self._signals:
            return
        if not self._announced and not was_ready:
            raise ServeError(f"worker {worker.number} did not start (exit code {code}); its messages are above")
        if time.monotonic() - worker.started_at > LONGEST_PAUSE_SECONDS:
            worker.deaths = 0
        pause = 0.0 if was_ready and worker.deaths == 0 else min(0.5 * 2**worker.deaths, LONGEST_PAUSE_SECONDS)
        worker.deaths += 1
        worker.start_at = time.monotonic() + pause
        logger.error("worker %d (pid %d) ended with %d: restarting it in %.1f s", worker.number, pid, code, pause)

    def _stop(self) -> None:
        """Passes the signal on and waits. A second signal is passed on too, and kills the workers at once."""
        for worker in self._workers:
            worker.listener.close()
        settings = self._settings
        deadline = time.monotonic() + settings.shutdown_delay_seconds + settings.shutdown_seconds + KILL_AFTER_SECONDS
        passed = 0
        while any(worker.process is not None for worker in self._workers):
            if passed < len(self._signals):
                passed = len(self._signals)
                if passed > 1:
                    deadline = min(deadline, time.monotonic() + KILL_AFTER_SECONDS)
                self._send(signal.SIGTERM)
            if time.monotonic() > deadline:
                self._kill()
                return
            for key, _ in self._selector.select(max(0.0, deadline - time.monotonic())):
                if isinstance(key.data, Worker) and key.data.link is not None:
                    self._hear(key.data)
                elif key.data is None:
                    with contextlib.suppress(BlockingIOError):
                        key.fileobj.recv(64)  # type: ignore[union-attr]

    def _send(self, number: int) -> None:
        for worker in self._workers:
            if worker.process is not None and worker.process.poll() is None:
                worker.process.send_signal(number)

    def _kill(self) -> None:
        self._send(signal.SIGKILL)
        for worker in self._workers:
            if worker.process is not None:
                worker.process.wait()
                worker.process = None
