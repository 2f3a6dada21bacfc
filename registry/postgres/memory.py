"""The memory of PostgreSQL's processes: a session can set work_mem, and make texts of a gigabyte, as often as it likes.

PostgreSQL has no limit for that, the system has: RLIMIT_DATA, for what a process allocates (shared memory is not
counted). A query that needs more fails with `out of memory`, and its session continues.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Sequence
from typing import Final

# Any process. Indexes and vacuum take 64 MB, pages of large objects some megabytes each.
PROCESS_BYTES: Final = 1 << 30
# A session of a report login. Its queries stream their rows; sorts and hashes beyond work_mem go to disk.
REPORT_BYTES: Final = 256 << 20

# In the shell, since root may lack the capability to limit processes of other accounts.
_LIMITED: Final = f'ulimit -d {PROCESS_BYTES >> 10} 2>/dev/null; exec "$@"'


def with_memory_limit(command: Sequence[str]) -> list[str]:
    """Returns the command that runs `command`, under the same process ID, with PROCESS_BYTES for each process."""
    return ["/bin/sh", "-c", _LIMITED, "sh", *command]


def limit_report(pid: int) -> None:
    """Limits a session of a report login, where the system lets us: on Linux, as the same account or with the
    capability to."""
    if hasattr(resource, "prlimit"):
        with contextlib.suppress(OSError):
            resource.prlimit(pid, resource.RLIMIT_DATA, (REPORT_BYTES, REPORT_BYTES))
