"""Default limits of report logins. Separate from logins.py for the command line, which imports it."""

from __future__ import annotations

from typing import Final

CONNECTIONS: Final = 5
TIMEOUT_SECONDS: Final = 60
