"""Wake-ups between processes: LISTEN/NOTIFY as a hint. The woken process reads the log; a lost hint only costs time.

A NOTIFY inside a writing transaction takes a cluster-wide lock until the flush (a third to a seventh of the write rate
remains), so it is sent afterwards, from its own connection, at most once every 5 ms for everything committed
meanwhile. Its errors are swallowed: a full notification queue must not fail anybody.

The payload is "<process> <domain>:<revision> ..."; without domains it means: look at all domains.

A process that hears nobody else sends nothing. Each that listens tests its connection every few seconds, with a
notification that the others hear as well.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import secrets
from collections.abc import Callable
from typing import Final

import psycopg
from psycopg.sql import SQL, Identifier

from registry.logs import LoggedCondition
from registry.store.database import Database
from registry.store.session import Connection
from registry.store.statements import statement
from registry.store.translate import first_line
from registry.store.types import DomainId
from registry.tasks import cancel

logger = logging.getLogger(__name__)

# PostgreSQL's limit is 8,000 bytes.
MAX_PAYLOAD: Final = 7_500

# Two 64-bit integers and a colon.
MAX_ITEM: Final = 39

INTERVAL: Final = 0.005

# How long a notification to ourselves may take before they count as not delivered (a pooler in between).
SELF_TEST_SECONDS: Final = 1.0
# The interval of further tests, and their timeout, for a busy machine.
REPEATED_TEST_SECONDS: Final = 5.0
_TEST: Final = "test-"
# How long nobody else is heard until there is nobody: a process that listens is heard every ten seconds at most.
ALONE_SECONDS: Final = 30.0

# A connection that is replaced quickly is not worth a log line.
CONDITION_DELAY_SECONDS: Final = 3.0

NOTIFY: Final = statement("notify", "Wakes the other processes.", "SELECT pg_notify(%(channel)s, %(payload)s)")

# Any role that may connect can listen and notify, including report logins: so the channel's name is a secret.
MAKE_CHANNEL: Final = statement(
    "make-channel",
    "Makes the name of the channel on which processes wake each other, once for a database.",
    """
    INSERT INTO settings (name, value)
    VALUES ('notify-channel', to_jsonb('registry_' || replace(gen_random_uuid()::text, '-', '')))
    ON CONFLICT (name) DO NOTHING
    """,
)
CHANNEL: Final = statement(
    "channel",
    "The name of that channel; by the primary key.",
    "SELECT value #>> '{}' FROM settings WHERE name = 'notify-channel'",
)

OnSignal = Callable[[dict[DomainId, int]], None]


class Notifier:
    """Announces this process's commits, from its own connection."""

    def __init__(self, database: Database, process: str) -> None:
        self._database = database
        self._process = process
        self._news: dict[DomainId, int] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._channel = ""
        self._sending = asyncio.Lock()
        self._closed = False
        self._silence = LoggedCondition(
            logger, "other processes are not woken, and see writes by polling", "other processes are woken again",
            level=logging.WARNING, delay_seconds=CONDITION_DELAY_SECONDS,
        )  # fmt: skip

    def notify(self, news: dict[DomainId, int]) -> None:
        if self._closed:
            return
        self._news.update(news)
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="registry notifier", context=contextvars.Context())

    async def send(self, payload: str) -> None:
        """Sends at once. Raises psycopg's errors."""
        # The listener's self-test also sends here, so both share one connection.
        async with self._sending:
            if self._connection is None or self._connection.closed:
                self._connection = await self._database.connect("notifier")
                self._connection.call_limit_seconds = SELF_TEST_SECONDS * 5
                self._channel = await channel_of(self._connection)
            await self._connection.call(NOTIFY, {"channel": self._channel, "payload": payload})

    async def close(self) -> None:
        """Sends the last news, unless that takes longer than a second."""
        self._closed = True
        await cancel(self._task)
        if self._news:
            try:
                async with asyncio.timeout(1):
                    await self.send(encode(self._process, self._news))
            except (psycopg.Error, OSError, TimeoutError):
                pass
        if self._connection is not None:
            await self._connection.close()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            news = dict(self._news)
            try:
                await self.send(encode(self._process, news))
                self._silence.end()
                # More may have arrived meanwhile.
                self._news = {d: revision for d, revision in self._news.items() if news.get(d) != revision}
            except (psycopg.Error, OSError) as error:
                if self._database.away is None:  # an outage of PostgreSQL is logged elsewhere
                    self._silence.hold(first_line(error))
                await asyncio.sleep(1)
            await asyncio.sleep(INTERVAL)


class Listener:
    """Receives the commits of other processes. `on_signal` gets the domains, or {} for "look at all domains".

    `healthy` says whether hints arrive; else the feed polls ten times a second.
    """

    def __init__(self, database: Database, process: str, notifier: Notifier, on_signal: OnSignal) -> None:
        self._database = database
        self._process = process
        self._notifier = notifier
        self._on_signal = on_signal
        self._task: asyncio.Task[None] | None = None
        self._heard_self = asyncio.Event()
        self._self_test: str | None = None
        self.healthy = False
        # Since when no other process has been heard by a connection that has delivered all tests of our own.
        self._alone_since = math.inf
        self._silence = LoggedCondition(
            logger, "notifications of other processes are not heard", "notifications are heard again",
            level=logging.WARNING, delay_seconds=CONDITION_DELAY_SECONDS,
        )  # fmt: skip

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="registry listener", context=contextvars.Context())

    async def close(self) -> None:
        await cancel(self._task)

    @property
    def is_alone(self) -> bool:
        """Whether no other process listens. One that has just begun to may be missed for a moment: it polls."""
        return asyncio.get_running_loop().time() - self._alone_since > ALONE_SECONDS

    async def _run(self) -> None:
        pause = 0.05
        while True:
            try:
                connection = await self._database.connect("listener")
            except (psycopg.Error, OSError) as error:
                self._note_silence(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, 2.0)
                continue
            pause = 0.05
            try:
                await self._listen(connection)
            except (psycopg.Error, OSError) as error:
                self._note_silence(error)
            finally:
                self._note_health(False)
                connection.finish()

    def _note_health(self, healthy: bool) -> None:
        if not healthy:
            self._alone_since = math.inf
        elif not self.healthy:
            self._alone_since = asyncio.get_running_loop().time()
        self.healthy = healthy

    def _note_silence(self, error: Exception) -> None:
        if self._database.away is None:  # an outage of PostgreSQL is logged elsewhere
            self._silence.hold(first_line(error))

    async def _listen(self, connection: Connection) -> None:
        await connection.execute(SQL("LISTEN {}").format(Identifier(await channel_of(connection))))
        connection.call_limit_seconds = None
        # Commits before this moment were not announced to us: look once.
        self._on_signal({})
        test = asyncio.create_task(self._test_forever(connection), name="registry listener self-test")
        try:
            # This connection runs nothing else, or notifications could be missed (psycopg issue 962).
            async for notification in connection.notifies():
                self._hear(notification.payload)
        finally:
            test.cancel()

    def _hear(self, payload: str) -> None:
        if payload == self._self_test:
            self._heard_self.set()
            return
        process, news = decode(payload.removeprefix(_TEST))
        if process == self._process:
            return
        if self.healthy:
            self._alone_since = asyncio.get_running_loop().time()
        if not payload.startswith(_TEST):
            self._on_signal(news)

    async def _test_forever(self, connection: Connection) -> None:
        """Sends notifications to this process: while they arrive, hints work. A connection that has delivered some and
        then delivers none is frozen, and closed; one that never did leads through a pooler in transaction mode."""
        is_heard = False
        while True:
            try:
                self._note_health(await self._arrives(REPEATED_TEST_SECONDS if is_heard else SELF_TEST_SECONDS))
            except (psycopg.Error, OSError) as error:
                self._note_silence(error)
                await asyncio.sleep(1)
                continue
            if self.healthy:
                is_heard = True
                self._silence.end()
                await asyncio.sleep(REPEATED_TEST_SECONDS)
            elif is_heard:
                connection.abort()
                return
            else:
                self._silence.hold("notifications do not arrive (a pooler in transaction mode?): polling instead")
                await asyncio.sleep(30)

    async def _arrives(self, seconds: float) -> bool:
        """Returns whether a notification sent now arrives within some seconds."""
        self._self_test = f"{_TEST}{self._process} {secrets.token_hex(8)}"
        self._heard_self.clear()
        await self._notifier.send(self._self_test)
        try:
            async with asyncio.timeout(seconds):
                await self._heard_self.wait()
        except TimeoutError:
            return False
        return True


async def channel_of(connection: Connection) -> str:
    await connection.execute(MAKE_CHANNEL.sql)
    row = await (await connection.execute(CHANNEL.sql)).fetchone()
    assert row is not None
    return str(row[0])


def encode(process: str, news: dict[DomainId, int]) -> str:
    payload = process + "".join([f" {domain}:{revision}" for domain, revision in news.items()])
    return payload if len(payload) <= MAX_PAYLOAD else process


def decode(payload: str) -> tuple[str, dict[DomainId, int]]:
    """Returns the process and its news; none if they cannot be parsed, which means: look at all domains."""
    process, *items = payload.split(" ")
    news: dict[DomainId, int] = {}
    for item in items:
        domain, _, revision = item.partition(":")
        if not (domain.isdecimal() and revision.isdecimal() and len(item) <= MAX_ITEM):
            return process, {}
        news[DomainId(int(domain))] = int(revision)
    return process, news
