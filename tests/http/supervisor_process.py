"""A supervisor over workers that run an application of tests/http/applications.py; prints its port when ready."""

from __future__ import annotations

import sys
from pathlib import Path

from registry import logs
from registry.http.serving.server import ServeError, bind
from registry.http.serving.supervisor import Supervisor
from registry.settings.declarations import Settings


def main(application: str, workers: int) -> int:
    logs.configure("info", "text")
    listeners = bind("127.0.0.1", 0, workers)
    port = listeners[0].getsockname()[1]
    settings = Settings(data_dir=Path("/nonexistent"), plain_http=True, shutdown_seconds=5)
    try:
        Supervisor(
            settings,
            listeners,
            application=f"tests.http.applications:{application}",
            when_ready=lambda: print(port, flush=True),
        ).run()
    except ServeError as problem:
        print(f"registry: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
