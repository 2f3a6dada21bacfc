"""What a login for reports may take unless it is granted otherwise. Apart from logins.py: the command line reads it."""

from __future__ import annotations

from typing import Final

CONNECTIONS: Final = 5
TIMEOUT_SECONDS: Final = 60
