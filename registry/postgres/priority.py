"""Reports yield to the API: processes of report logins run at a lower priority than all others, with less memory.

PostgreSQL has a process per session, and no priorities. If it runs embedded, the processes of report logins
(store/reporting/logins.py) get a lower operating system priority soon after they start: they get the processor time
that the server and its own sessions leave, and a tenth if nothing is left. Not less than that, because a report
occasionally holds for a moment what a write waits for. With the priority they get their limit of memory (processes.py).

Linux may divide the processors among sessions first (sched_autogroup, see sched(7)), and each process of PostgreSQL is
a session of its own; then the priority of its autogroup must be lowered.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psycopg

from registry.postgres.processes import limit_report

# A scheduler weight of 110 instead of 1024.
NICE: Final = 10
PAUSE_SECONDS: Final = 0.5

logger = logging.getLogger(__name__)

# Parallel workers have the user name of their session.
_PROCESSES: Final = """
    SELECT a.pid FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.usename IN (SELECT name FROM report_logins)
"""


class ReportPriorities:
    """A thread that looks for new processes as long as the block lasts."""

    def __init__(self, url: str, *, pause_seconds: float = PAUSE_SECONDS) -> None:
        self._url = url
        self._pause_seconds = pause_seconds
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="priorities of reports", daemon=True)
        self._known: set[int] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        connection: psycopg.Connection[tuple[int]] | None = None
        while not self._ending.wait(self._pause_seconds):
            try:
                if connection is None or connection.closed:
                    connection = psycopg.connect(
                        self._url, autocommit=True, connect_timeout=10, application_name="registry priorities"
                    )
                self._lower({row[0] for row in connection.execute(_PROCESSES)})
            except psycopg.Error as error:  # it is restarting, or the tables do not exist yet
                logger.debug("the sessions of reports are not known: %s", error)
                if connection is not None:
                    connection.close()
                    connection = None
        if connection is not None:
            connection.close()

    def _lower(self, processes: set[int]) -> None:
        for pid in processes - self._known:
            limit_report(pid)
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                if os.getpriority(os.PRIO_PROCESS, pid) < NICE:
                    os.setpriority(os.PRIO_PROCESS, pid, NICE)
            with contextlib.suppress(OSError):  # a system without autogroups
                Path(f"/proc/{pid}/autogroup").write_text(str(NICE))
        self._known = processes
