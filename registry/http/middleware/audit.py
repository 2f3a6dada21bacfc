"""The gateway with an audit trail around it, as the settings say. Where nothing is audited it is not there at all."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import logging
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from registry.audit import policy
from registry.audit.policy import Policy
from registry.audit.sinks import LogFile, Queued, Several, Sink, patiently
from registry.audit.trail import KEY, Trail
from registry.authorization.attributes import Attributes
from registry.http.request_info import parse, with_past
from registry.http.resources import parse_query, verb_of
from registry.http.serving.tls_files import Stamp, stamp_of
from registry.settings import Settings
from registry.store import audit as table
from registry.store.connection import Pool
from registry.store.errors import StoreError

logger = logging.getLogger(__name__)

CLEAN_UP_SECONDS: Final = 600.0
# How often the file of the policy is looked at.
LOOK_SECONDS: Final = 15.0


@contextlib.asynccontextmanager
async def with_audit(app: ASGIApp, settings: Settings) -> AsyncIterator[ASGIApp]:
    """`app` with a trail around it, or itself where nothing is audited. Raises policy.PolicyError.

    At the end of the block all events are written.
    """
    if settings.audit_policy_file is None:
        yield app
        return
    stamp = stamp_of(settings.audit_policy_file)
    wanted = policy.load(settings.audit_policy_file)
    async with contextlib.AsyncExitStack() as stack:
        sinks = []
        if settings.audit_log_path is not None:
            file = LogFile(settings.audit_log_path, settings.audit_log_megabytes * 1_000_000, settings.audit_log_files)
            stack.callback(file.close)
            # What cannot be written at all is told now rather than with the first request.
            await file.write([])
            sinks.append(Queued(file.write))
        if settings.audit_to_database:
            assert settings.database_url is not None, "the command line has started or been given a database"
            pool = Pool(settings.database_url, "audit", 1)
            stack.push_async_callback(pool.close)
            cleaning = asyncio.create_task(
                _clean_up(pool, datetime.timedelta(days=settings.audit_retention_days)), name="registry audit clean-up"
            )
            stack.push_async_callback(_cancel, cleaning)
            sinks.append(Queued(patiently(partial(table.insert, pool))))
        sink = Several(sinks)
        stack.push_async_callback(sink.aclose)
        made = Audited(app, wanted, sink)
        stack.push_async_callback(
            _cancel, asyncio.create_task(_follow(settings.audit_policy_file, stamp, made), name="registry audit policy")
        )
        yield made


async def _follow(path: Path, known: Stamp, audited: Audited) -> None:
    """Has requests audited by the policy as it stands in the file; one that is none changes nothing."""
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        stamp = await asyncio.to_thread(stamp_of, path)
        if stamp == known:
            continue
        known = stamp
        try:
            audited.policy = await asyncio.to_thread(policy.load, path)
            logger.info("took up the audit policy in %s", path)
        except policy.PolicyError as problem:
            logger.error("the audit policy cannot be used, the old one stays: %s", problem)


async def _clean_up(pool: Pool, retention: datetime.timedelta) -> None:
    while True:
        try:
            await table.remove_old(pool, retention)
        except StoreError as error:
            logger.warning("old audit events could not be removed: %s", error)
        await asyncio.sleep(CLEAN_UP_SECONDS)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class Audited:
    """`policy` may be replaced: a request is audited to its end by the one that stood when it came."""

    def __init__(self, app: ASGIApp, policy: Policy, sink: Sink) -> None:
        self._app = app
        self.policy = policy
        self._sink = sink

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        target, query = parse(scope["path"]), parse_query(scope["query_string"])
        verb = verb_of(scope["method"], target, query) if target.resource else scope["method"].lower()
        target = with_past(target, verb, query)
        headers = dict(scope["headers"])
        given = headers.get(b"audit-id", b"").decode("latin-1")
        named = given.isascii() and given.replace("-", "").replace(".", "").replace("_", "").isalnum()
        audit_id = given[:64] if named else os.urandom(16).hex()
        if not named:
            # The gateway takes the name that the request has.
            scope["headers"] = [
                *((k, v) for k, v in scope["headers"] if k != b"audit-id"),
                (b"audit-id", audit_id.encode()),
            ]
        attributes = Attributes(
            verb, target.path, target.resource, target.subresource, target.group, target.namespace, target.name
        )
        trail = Trail(self.policy, self._sink, scope, target.version, attributes, audit_id)
        scope[KEY] = trail
        try:
            await self._app(scope, trail.receiving(receive), trail.sending(send))
        except BaseException:
            await trail.panic()
            raise
        await trail.end()
