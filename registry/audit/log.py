"""The configured audit log: the current policy, and where events go."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from registry.audit import policy
from registry.audit.sinks import LogFile, Sinks, Write, with_retries
from registry.files import stamp_of
from registry.settings.declarations import Settings
from registry.store import audit as table
from registry.store.connection import Pool
from registry.store.errors import StoreError
from registry.tasks import running

logger = logging.getLogger(__name__)

CLEAN_UP_SECONDS: Final = 600.0
# How often the policy file is checked for changes.
CHECK_SECONDS: Final = 15.0


class PolicyFile:
    """`current` is the last valid policy of the file."""

    def __init__(self, path: Path) -> None:
        """Raises policy.PolicyError."""
        self._path = path
        self._stamp = stamp_of(path)
        self.current = policy.load(path)

    async def follow(self) -> None:
        """Reloads the file whenever it changes; an invalid policy is logged and ignored."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            stamp = await asyncio.to_thread(stamp_of, self._path)
            if stamp == self._stamp:
                continue
            self._stamp = stamp
            try:
                self.current = await asyncio.to_thread(policy.load, self._path)
                logger.info("loaded the changed audit policy %s", self._path)
            except policy.PolicyError as problem:
                logger.error("the changed audit policy is not valid, the previous one stays in force: %s", problem)


class AuditLog(NamedTuple):
    policy: PolicyFile
    sinks: Sinks


@contextlib.asynccontextmanager
async def audit_log(settings: Settings) -> AsyncIterator[AuditLog | None]:
    """None if auditing is disabled. All events are written when the block ends. Raises policy.PolicyError."""
    if settings.audit_policy_file is None:
        yield None
        return
    policy_file = PolicyFile(settings.audit_policy_file)
    async with contextlib.AsyncExitStack() as stack:
        writes: list[Write] = []
        if settings.audit_log_path is not None:
            file = LogFile(settings.audit_log_path, settings.audit_log_megabytes * 1_000_000, settings.audit_log_files)
            stack.callback(file.close)
            # A file that cannot be written fails at startup, not at the first request.
            await file.write([])
            writes.append(file.write)
        if settings.audit_to_database:
            assert settings.database_url is not None, "the command line has started or been given a database"
            pool = Pool(settings.database_url, "audit", 1)
            stack.push_async_callback(pool.close)
            retention = datetime.timedelta(days=settings.audit_retention_days)
            await stack.enter_async_context(running(_clean_up(pool, retention), "registry audit clean-up"))
            writes.append(with_retries(partial(table.insert, pool)))
        sinks = Sinks(writes)
        stack.push_async_callback(sinks.aclose)
        await stack.enter_async_context(running(policy_file.follow(), "registry audit policy"))
        yield AuditLog(policy_file, sinks)


async def _clean_up(pool: Pool, retention: datetime.timedelta) -> None:
    while True:
        try:
            await table.remove_old(pool, retention)
        except StoreError as error:
            logger.warning("old audit events could not be removed: %s", error)
        await asyncio.sleep(CLEAN_UP_SECONDS)
