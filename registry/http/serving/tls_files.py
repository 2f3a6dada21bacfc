"""The TLS files, reloaded when they change.

Each change creates a new context, as a context cannot forget: a removed client CA would still be trusted, and so would
resumed sessions.
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


class Reloaded(NamedTuple):
    """`client_ca` tells whether the CA of clients may have changed."""

    context: ssl.SSLContext
    client_ca: bool


class TlsFiles:
    """`served` returns the certificate, and renews it if it is our own. It may raise TlsError."""

    def __init__(self, served: Callable[[], Certificates], client_ca: Path | None) -> None:
        self._served = served
        self._client_ca = client_ca
        self._stamps: dict[Path, Stamp] = {}

    def context(self) -> ssl.SSLContext:
        """Returns a context of the present files. Raises TlsError."""
        files = self._served()
        # Before they are read, so that changes in between are noticed the next time.
        self._stamps = self._stamps_of(files)
        return server_context(files.certificate, files.key, self._client_ca)

    def reload(self) -> Reloaded | None:
        """Returns None if nothing has changed, or if it is unusable, which is logged once; the old context stays."""
        before = self._stamps
        try:
            if self._stamps_of(self._served()) == before:
                return None
            context = self.context()
        except (TlsError, OSError) as problem:
            logger.error("the changed certificates cannot be used, the old ones stay: %s", problem)
            return None
        changed = sorted(str(path) for path, stamp in self._stamps.items() if before.get(path) != stamp)
        logger.info("new connections are served with the changed files: %s", ", ".join(changed))
        ca = self._client_ca
        return Reloaded(context, ca is not None and before.get(ca) != self._stamps[ca])

    def _stamps_of(self, certificates: Certificates) -> dict[Path, Stamp]:
        files = (certificates.certificate, certificates.key, *(() if self._client_ca is None else (self._client_ca,)))
        return {path: stamp_of(path) for path in files}
