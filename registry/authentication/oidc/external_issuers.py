"""All external issuers of the configuration file, which is reloaded when it changes.

An invalid change is logged and ignored. Follows apiserver pkg/server/options/authentication.go.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from registry.authentication.authenticator import Anonymous, Identified
from registry.authentication.oidc.authenticator import IssuerTokens
from registry.authentication.oidc.configuration import BadConfiguration, Configuration, load_configuration
from registry.authentication.tokens.unverified import issuer_of
from registry.authentication.user import User
from registry.files import stamp_of
from registry.webhooks.egress import EgressPolicy

logger = logging.getLogger(__name__)

# How often the file is checked for changes while tokens arrive.
CHECK_SECONDS: Final = 15.0


class ExternalIssuerTokens:
    """`anonymous` is the file's configuration of anonymous requests; None if it has none."""

    def __init__(self, path: Path, own_issuer: str, policy: EgressPolicy) -> None:
        """Raises BadConfiguration."""
        self._path = path
        self._own_issuer = own_issuer
        self._policy = policy
        self._issuers: dict[str, IssuerTokens] = {}
        self.anonymous: Anonymous | None = None
        self._stamp = stamp_of(path)
        self._next = time.monotonic() + CHECK_SECONDS
        self._take_up(load_configuration(path, own_issuer))

    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        if time.monotonic() >= self._next:
            await self.reload()
        issuer = self._issuers.get(issuer_of(token))
        return await issuer.identify(token) if issuer is not None else None

    def recall(self, token: str) -> User | None:
        return None

    async def reload(self) -> None:
        """Reloads the file if it has changed."""
        self._next = time.monotonic() + CHECK_SECONDS
        stamp = await asyncio.to_thread(stamp_of, self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._take_up(await asyncio.to_thread(load_configuration, self._path, self._own_issuer))
            logger.info("loaded the authentication configuration in %s", self._path)
        except BadConfiguration as error:
            logger.error("the authentication configuration cannot be used, the old one stays: %s", error)

    def _take_up(self, configuration: Configuration) -> None:
        self._issuers = {i.url: IssuerTokens(i, self._policy) for i in configuration.issuers}
        self.anonymous = configuration.anonymous
