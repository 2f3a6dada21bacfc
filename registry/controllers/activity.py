"""Publishes this process's tenant activity, so that `registry top` covers all processes (store/process_activity.py)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final, Self

from registry.api.request import Backend
from registry.flowcontrol.activity import Figures
from registry.store.errors import StoreError
from registry.store.process_activity import LIFETIME_SECONDS
from registry.tasks import cancel

logger = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 3.0
# Unchanged figures are published again before they expire.
_RENEWED_AFTER_SECONDS: Final = LIFETIME_SECONDS / 3


class ActivityPublisher:
    """Between entering and leaving, publishes changes every PERIOD_SECONDS. An idle process writes nothing."""

    def __init__(self, backend: Backend) -> None:
        self._figures = backend.activity.busy
        self._activity = backend.store.activity()
        self._published: dict[str, Figures] = {}
        self._published_at = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="activity of tenants")
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancel(self._task)
        if self._published:
            try:
                await self._activity.withdraw()
            except StoreError as problem:  # it will expire
                logger.debug("the activity of tenants is not withdrawn: %s", problem)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            try:
                await self._publish(self._figures())
            except StoreError as problem:
                logger.debug("the activity of tenants is not published: %s", problem)
            except Exception:
                logger.exception("publishing the activity of tenants failed")

    async def _publish(self, figures: dict[str, Figures]) -> None:
        now = time.monotonic()
        if figures == self._published and (not figures or now - self._published_at < _RENEWED_AFTER_SECONDS):
            return
        if figures:
            await self._activity.publish(figures)
        else:
            await self._activity.withdraw()
        self._published, self._published_at = figures, now
