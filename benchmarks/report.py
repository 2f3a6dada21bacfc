"""The results of a run: a table to read, and JSON to compare."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measures import Row

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("orjson", "psycopg", "starlette", "uvicorn", "uvloop", "httptools", "google-re2")


def machine() -> dict[str, Any]:
    """Returns properties of the machine and the environment that the figures depend on."""
    return {
        "cores": os.cpu_count(),
        "load": [round(n, 2) for n in os.getloadavg()],
        "memory_mb": psutil.virtual_memory().total >> 20,
        "processor": platform.machine(),
        "python": platform.python_version(),
        "generator": "wrk" if shutil.which("wrk") else "python",
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }


def table(rows: list[Row]) -> str:
    """Returns a table with the columns name, value, latencies, and CPU time of server and PostgreSQL."""
    head = f"{'':62} {'':>14} {'p50 ms':>8} {'p99 ms':>8} {'server µs':>10} {'PostgreSQL µs':>14}"
    return "\n".join([head, *map(_line, rows)])


def _line(row: Row) -> str:
    figure = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.2f}"
    cells = [
        _cell(row.p50_ms, 8, 1),
        _cell(row.p99_ms, 8, 1),
        _cell(row.server_cpu, 10, 0),
        _cell(row.postgres_cpu, 14, 0),
    ]
    failed = f"  {row.failed} failed" if row.failed else ""
    return f"{row.name:62} {figure + ' ' + row.unit:>14} {' '.join(cells)}{failed}"


def _cell(value: float | None, width: int, digits: int) -> str:
    return f"{value:{width}.{digits}f}" if value is not None else " " * width


def keep(name: str, content: dict[str, Any]) -> Path:
    """Writes results/<name>-<time>.json and returns its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return path
