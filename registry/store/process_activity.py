"""Per-tenant activity of each process, published so that one process can report for all of them.

A process writes the figures of its busiest tenants as JSON into its own row of the table of leaders, under the name
`activity/<process>`: {"acme": [120, 14, 3]}, in the order of the fields of Figures. The row of a crashed process
expires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from registry.flowcontrol.activity import Figures
from registry.store.connection import Pool
from registry.store.statements import statement

LIFETIME_SECONDS: Final = 30.0
# The busiest tenants that one process publishes: bounds the sum over many processes.
MAX_PUBLISHED: Final = 100

PUBLISH: Final = statement(
    "publish-activity",
    "Writes what tenants do in a process, and removes the rows of processes that have ended; by the primary key.",
    """
    WITH ended AS (
        DELETE FROM leaders WHERE name >= 'activity/' AND name < 'activity0' AND expires_at < clock_timestamp()
            AND name <> 'activity/' || %(process)s::text
    )
    INSERT INTO leaders AS l (name, holder, expires_at)
    VALUES ('activity/' || %(process)s::text, %(figures)s::text,
        clock_timestamp() + %(seconds)s::float8 * interval '1 second')
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
    """,
)

WITHDRAW: Final = statement(
    "withdraw-activity",
    "Removes what a process has published; by the primary key.",
    "DELETE FROM leaders WHERE name = 'activity/' || %(process)s::text",
)

OTHERS: Final = statement(
    "activity-of-others",
    "What tenants do in the other processes; by the primary key.",
    """
    SELECT holder FROM leaders WHERE name >= 'activity/' AND name < 'activity0' AND expires_at >= clock_timestamp()
        AND name <> 'activity/' || %(process)s::text
    """,
)


class ProcessActivity:
    """Publishes this process's figures, and reads those of the others."""

    def __init__(self, pool: Pool, process: str) -> None:
        self._pool = pool
        self._process = process

    async def publish(self, figures: Mapping[str, Figures]) -> None:
        """Publishes the figures of the busiest MAX_PUBLISHED tenants."""
        busiest = sorted(figures.items(), key=lambda item: item[1], reverse=True)[:MAX_PUBLISHED]
        await self._pool.execute(
            PUBLISH, {"process": self._process, "figures": json.dumps(dict(busiest)), "seconds": LIFETIME_SECONDS}
        )

    async def withdraw(self) -> None:
        """Removes what was published, when this process ends or is idle."""
        await self._pool.execute(WITHDRAW, {"process": self._process})

    async def of_others(self) -> dict[str, Figures]:
        """Returns the sums over all other processes, by tenant name; a few seconds old."""
        by_tenant: dict[str, Figures] = {}
        for (published,) in await self._pool.fetch(OTHERS, {"process": self._process}):
            for name, figures in json.loads(published).items():
                by_tenant[name] = by_tenant.get(name, Figures()).plus(Figures(*figures))
        return by_tenant
