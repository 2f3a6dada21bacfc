"""Log lines on stderr: text for people, or one JSON object per line for machines.

A record's `extra={"fields": {...}}` is included as ` key=value` or as members of the object. Lines logged while a
request is served carry its audit ID, as `request`.

Messages quote what clients and servers of tenants have sent: they are cut, and cannot look like further lines.
"""

from __future__ import annotations

import contextvars
import datetime
import json
import logging
import os
import sys
import textwrap
import time
from typing import Any, Final

# How often a lasting condition is logged again.
REPEAT_SECONDS: Final = 60.0
# A condition that recurs within this time is not logged again, unless it lasts as long.
QUIET_SECONDS: Final = 10.0

# Logger names that say nothing to an operator.
QUIET_LOGGERS = ("uvicorn", "uvicorn.error", "alembic", "asyncio")


class ServedRequest:
    """The audit ID of a request; empty when it is over, for tasks that outlive it."""

    __slots__ = ("audit_id",)

    def __init__(self, audit_id: str) -> None:
        self.audit_id = audit_id


# The longest message; those that quote answers of webhooks have up to 256 KiB.
MESSAGE_CHARACTERS: Final = 4096
# The longest part of it that clients choose freely.
_QUOTED_CHARACTERS: Final = 1024

_served: contextvars.ContextVar[ServedRequest | None] = contextvars.ContextVar("served_request", default=None)


def begin_request(audit_id: str = "") -> ServedRequest:
    """Marks the current task as serving a request. A client may name it, in at most 64 letters, digits and the like."""
    named = audit_id.isascii() and audit_id.replace("-", "").replace(".", "").replace("_", "").isalnum()
    request = ServedRequest(audit_id[:64] if named else os.urandom(16).hex())
    _served.set(request)
    return request


def loggable(text: str) -> str:
    """Escapes and shortens text from a client."""
    return ascii(text[:_QUOTED_CHARACTERS])[1:-1]


def audit_id() -> str:
    """Returns the audit ID of the current task's request; empty if there is none."""
    request = _served.get()
    return request.audit_id if request is not None else ""


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, "fields", {})
    request = audit_id()
    return {**fields, "request": request} if request else fields


def configure(level: str, form: str, *, worker: int | None = None) -> None:
    """Sets up the root logger of this process. `worker` is its number among several processes."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(worker) if form == "json" else TextFormatter(worker))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


class LoggedCondition:
    """A lasting state: one line when it begins, one a minute while it holds, and one when it is over.

    PostgreSQL is away: connection refused
    PostgreSQL is away: connection refused (for 62 s, 248 times)
    PostgreSQL is back after 71 s
    """

    def __init__(
        self, logger: logging.Logger, begins: str, ends: str, *, level: int = logging.ERROR, delay_seconds: float = 0.0
    ) -> None:
        """`delay_seconds`: a condition that is over by then is not logged at all."""
        self._logger = logger
        self._begins = begins
        self._ends = ends
        self._level = level
        self._delay_seconds = delay_seconds
        self._since: float | None = None
        self._logged_at: float | None = None
        self._over = -QUIET_SECONDS
        self._times = 0

    def since_seconds(self) -> float:
        """Returns for how long it has held; 0 if it does not."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def hold(self, reason: str, *, silent: bool = False) -> None:
        now = time.monotonic()
        self._times += 1
        if self._since is None:
            self._since = now
        if silent:
            return
        if self._logged_at is None:
            again = now - self._over < QUIET_SECONDS
            if now - self._since >= max(self._delay_seconds, QUIET_SECONDS if again else 0.0):
                self._logged_at = now
                self._logger.log(self._level, "%s: %s", self._begins, reason)
        elif now - self._logged_at >= REPEAT_SECONDS:
            self._logged_at = now
            seconds = now - self._since
            self._logger.log(self._level, "%s: %s (for %.0f s, %d times)", self._begins, reason, seconds, self._times)

    def end(self) -> None:
        """Ends the condition. Costs nothing if it does not hold."""
        if self._since is not None:
            if self._logged_at is not None:
                self._over = time.monotonic()
                self._logger.warning("%s after %.1f s", self._ends, time.monotonic() - self._since)
            self._since, self._logged_at, self._times = None, None, 0


# Between two warnings of a kind.
_INTERVAL_SECONDS: Final = 10.0


# Kinds that are remembered: after so many, all may be logged again.
_KINDS: Final = 1000


class RateLimited:
    """Warnings that many requests share: at intervals one of each kind, with the number of omitted ones."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        # By kind: the time of the last line, and how many were omitted since.
        self._last_lines: dict[str, tuple[float, int]] = {}

    def warn(self, kind: str, text: str, *values: object) -> None:
        """Logs a warning of a kind, such as the name of a class, or a tenant."""
        if len(self._last_lines) >= _KINDS and kind not in self._last_lines:
            self._last_lines.clear()
        at, skipped = self._last_lines.get(kind, (-_INTERVAL_SECONDS, 0))
        now = time.monotonic()
        if now - at < _INTERVAL_SECONDS:
            self._last_lines[kind] = (at, skipped + 1)
            return
        self._last_lines[kind] = (now, 0)
        more = f" (and {skipped} like it before)" if skipped else ""
        self._logger.warning(text + "%s", *values, more)


class TextFormatter(logging.Formatter):
    """Formats '2026-01-31T12:00:00.123Z warning registry.store: slow statement name=load_row'."""

    def __init__(self, worker: int | None) -> None:
        super().__init__()
        self._worker = "" if worker is None else f" [{worker}]"

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        text = f"{_time(record)}{self._worker} {record.levelname.lower()} {record.name}: {_message(record)}"
        text += "".join(f" {key}={_plain(value)}" for key, value in fields.items())
        if record.exc_info is None:
            return text
        # Its last line may quote a text of a client, too, whose lines do not begin like others.
        return f"{text}\n{textwrap.indent(self.formatException(record.exc_info), '  ')}"


class JsonFormatter(logging.Formatter):
    def __init__(self, worker: int | None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if self._worker is not None:
            line["worker"] = self._worker
        line.update(_fields(record))
        if record.exc_info is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def _message(record: logging.LogRecord) -> str:
    """Returns the message in one line: cut, and with escapes for control characters."""
    text = record.getMessage()
    if len(text) > MESSAGE_CHARACTERS:
        text = f"{text[:MESSAGE_CHARACTERS]}... ({len(text)} characters)"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _plain(value: object) -> str:
    """Returns one word as it is, anything else as JSON, so that a line can be parsed and cannot be forged."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    simple = text.isprintable() and not any(sign in text for sign in ' "=')
    return text if simple or not isinstance(value, str) else json.dumps(text, ensure_ascii=False)
