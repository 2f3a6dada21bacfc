"""Serves the folder named on the command line until its end; prints the process number of PostgreSQL.

A process of its own, so that a test can kill it.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from registry.postgres.server import EmbeddedPostgres

if __name__ == "__main__":
    server = EmbeddedPostgres(Path(sys.argv[1]), settings={"fsync": "off"})
    server.start()
    print(server.pid, flush=True)
    threading.Event().wait()
