"""The files that TLS is served with, loaded again when they change.

Each change makes a new context, for a context cannot forget: an authority of clients that has been taken away would go
on counting, and so would sessions that are resumed.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from registry.files import Stamp, stamp_of
from registry.http.serving.tls import Certificates, TlsError, server_context

logger = logging.getLogger(__name__)


class Renewed(NamedTuple):
    """`client_ca` tells whether the authorities of clients are others, perhaps."""

    context: ssl.SSLContext
    client_ca: bool


class TlsFiles:
    """`served` names the certificate, and renews it where it is our own. It may raise TlsError."""

    def __init__(self, served: Callable[[], Certificates], client_ca: Path | None) -> None:
        self._served = served
        self._client_ca = client_ca
        self._stamps: dict[Path, Stamp] = {}

    def context(self) -> ssl.SSLContext:
        """Raises TlsError."""
        found = self._served()
        # Before they are read: what changes meanwhile is seen the next time.
        self._stamps = self._stamps_of(found)
        return server_context(found.certificate, found.key, self._client_ca)

    def look_again(self) -> Renewed | None:
        """None where nothing has changed, or where it cannot be used, which is reported once, and the old one stays."""
        before = self._stamps
        try:
            if self._stamps_of(self._served()) == before:
                return None
            made = self.context()
        except (TlsError, OSError) as problem:
            logger.error("the changed certificates cannot be used, the old ones stay: %s", problem)
            return None
        changed = sorted(str(path) for path, stamp in self._stamps.items() if before.get(path) != stamp)
        logger.info("new connections are served by what has changed: %s", ", ".join(changed))
        ca = self._client_ca
        return Renewed(made, ca is not None and before.get(ca) != self._stamps[ca])

    def _stamps_of(self, found: Certificates) -> dict[Path, Stamp]:
        files = (found.certificate, found.key, *(() if self._client_ca is None else (self._client_ca,)))
        return {path: stamp_of(path) for path in files}
