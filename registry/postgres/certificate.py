"""The certificate with which the embedded PostgreSQL serves TCP: a copy that its account may read.

The original belongs to the server, which renews it or was given it; the copy follows its changes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from registry.files import Stamp, stamp_of, write_private
from registry.postgres.account import SystemAccount

# Returns the files of a certificate and its key, after renewing them if due.
Source = Callable[[], tuple[Path, Path]]


class CertificateCopy:
    """The files `server.crt` and `server.key` in `folder`."""

    def __init__(self, source: Source, folder: Path, account: SystemAccount) -> None:
        self._source = source
        self._account = account
        self._stamps: list[Stamp] = []
        self.files = folder / "server.crt", folder / "server.key"

    def update(self) -> bool:
        """Copies the files if they have changed, and returns whether they had. Raises OSError, and what the source
        raises."""
        originals = self._source()
        stamps = [stamp_of(original) for original in originals]
        if stamps == self._stamps:
            return False
        for original, copy in zip(originals, self.files, strict=True):
            write_private(copy, original.read_bytes())
            self._account.let_read(copy)
        self._stamps = stamps
        return True
