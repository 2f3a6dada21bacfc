"""A server whose statements fail on request: `python -m tests.faults.failpoints serve --data-dir D ...`.

The file D/failpoint names a statement of the store, which fails as on a damaged disk. Conditions are noticed sooner, and
logged again at once when they recur; bookmarks come each second. These are patches of the tests.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg

from registry import logs
from registry.api import definition_changes
from registry.api.verbs import watch
from registry.cli.root import main
from registry.store import session_check
from registry.store.commit import writer
from registry.store.feed import feed
from registry.store.session import Connection
from registry.store.statements import Statement

MODULE: Final = ("tests.faults.failpoints",)
_SOONER: Final = (
    (logs, "QUIET_SECONDS", 0.0),
    (feed, "CONDITION_DELAY_SECONDS", 0.5),
    (feed, "STILL_SECONDS", 0.5),
    (definition_changes, "STILL_SECONDS", 0.5),
    (session_check, "_GOOD_SECONDS", 0.5),
    (watch, "BOOKMARK_SECONDS", 1.0),
    (writer, "REFUSAL_SECONDS", 0.5),
)


@contextlib.contextmanager
def failing(data_dir: Path, statement: str) -> Iterator[Callable[[], int]]:
    """Within the block the statement fails; returns how often it has."""
    file, failures = data_dir / "failpoint", data_dir / "failures"
    failures.write_bytes(b"")
    file.write_text(statement)
    try:
        yield lambda: failures.stat().st_size
    finally:
        file.unlink()


def _follow(file: Path) -> None:
    execute, call = Connection.execute, Connection.call

    def fails(query: Any) -> bool:
        with contextlib.suppress(FileNotFoundError):
            if isinstance(query, str) and query.startswith(f"/* registry:{file.read_text()} */"):
                with open(file.parent / "failures", "ab") as failures:
                    failures.write(b"x")
                return True
        return False

    def damaged() -> psycopg.Error:
        return psycopg.errors.DataCorrupted("invalid page in block 7 of relation base/5/16384")

    async def execute_or_fail(self: Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        if fails(query):
            raise damaged()
        return await execute(self, query, *arguments, **options)

    async def call_or_fail(self: Connection, statement: Statement, values: Any, **options: Any) -> Any:
        if fails(statement.sql):
            raise damaged()
        return await call(self, statement, values, **options)

    Connection.execute = execute_or_fail  # type: ignore[method-assign, assignment]
    Connection.call = call_or_fail  # type: ignore[method-assign]


def _run(arguments: list[str]) -> Any:
    for module, name, value in _SOONER:
        assert name in vars(module)
        vars(module)[name] = value
    _follow(Path(arguments[arguments.index("--data-dir") + 1]) / "failpoint")
    return main(arguments)


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
