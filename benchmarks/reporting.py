"""Reports over many objects: what typical queries take, as a login of one tenant.

    python -m benchmarks.reporting [--objects 1000000] [--plans] [--keep FOLDER]

It starts an embedded PostgreSQL in a folder of its own, puts objects of one definition into a tenant (and a tenth as
many into another), makes a login, and asks each question five times; the median is printed, and the plan with --plans.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg

from registry.controllers.reporting import reporting_of
from registry.postgres.server import EmbeddedPostgres
from registry.reporting.report import documents_of, report_of
from registry.store import migrate
from registry.store.connection import Pool, connect
from registry.store.reporting.logins import LoginSpec, grant
from registry.store.store import Store
from registry.store.types import TenantName

VIEW: Final = "apps_bench_example_com"
_TEXT: Final = {"type": "string"}
CRD: Final[dict[str, Any]] = {
    "metadata": {"name": "apps.bench.example.com"},
    "spec": {
        "group": "bench.example.com",
        "scope": "Namespaced",
        "names": {"plural": "apps", "kind": "App"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "selectableFields": [{"jsonPath": f".spec.{field}"} for field in ("phase", "replicas", "team")],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "phase": _TEXT,
                                    "team": _TEXT,
                                    "image": _TEXT,
                                    "replicas": {"type": "integer"},
                                    "containers": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "properties": {"name": _TEXT, "image": _TEXT, "cpu": {"type": "integer"}},
                                        },
                                    },
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "conditions": {
                                        "type": "array",
                                        "items": {
                                            "type": "object",
                                            "properties": {
                                                "type": _TEXT,
                                                "status": _TEXT,
                                                "reason": _TEXT,
                                                "lastTransitionTime": {"type": "string", "format": "date-time"},
                                            },
                                        },
                                    }
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
    "status": {"acceptedNames": {"plural": "apps"}},
}

# Made by PostgreSQL itself: a million writes through the API take minutes. The document is as facets.py makes it.
FILL: Final = """
INSERT INTO objects (tenant_id, resource, key, uid, revision, version, schema_id, body, doc, created_at, updated_at)
SELECT %(tenant)s, 'apps.bench.example.com', 'ns' || i %% 200 || '/app-' || i, gen_random_uuid()::text, i, 'v1', 0,
    '"name":"app-' || i || '"},"spec":' || spec || ',"status":' || status || '}',
    ('{"metadata":{"facets":{"layout":"' || %(layout)s || '","any":true,"text1":"' || phase || '","int1":' || i %% 1000
        || ',"text2":"team-' || i %% 50 || '","ready":' || (i %% 100 <> 0)
        || ',"ready_since":' || 1767225600 + i %% 864000
        || '},"name":"app-' || i || '","namespace":"ns' || i %% 200 || '","labels":{"app":"a' || i %% 50
        || '"}},"spec":' || spec || ',"status":' || status || '}')::jsonb,
    now() - i * interval '1 second', now() - i * interval '1 second'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) i
CROSS JOIN LATERAL (SELECT CASE
    WHEN i %% 1000 = 9 THEN 'Failed' WHEN i %% 10 = 3 THEN 'Pending' WHEN i %% 10 = 8 THEN 'Succeeded' ELSE 'Running'
    END AS phase) p
CROSS JOIN LATERAL (SELECT '{"phase":"' || phase || '","team":"team-' || i %% 50 || '","replicas":' || i %% 1000
    || ',"image":"registry.example/app:' || i %% 7 || '","containers":[{"name":"main","image":"a:' || i %% 7
    || '","cpu":' || i %% 16 || '},{"name":"side","image":"b:1","cpu":1}]}' AS spec) s
CROSS JOIN LATERAL (SELECT '{"conditions":[{"type":"Ready","status":"'
    || CASE WHEN i %% 100 <> 0 THEN 'True' ELSE 'False' END || '","reason":"R' || i %% 3
    || '","lastTransitionTime":"2026-01-01T00:00:00Z"}]}' AS status) c
"""

QUERIES: Final[dict[str, str]] = {
    "filter by an indexed text": "SELECT name, spec_replicas FROM {view} WHERE spec_phase = 'Failed'",
    "filter by an indexed number": "SELECT count(*) FROM {view} WHERE spec_replicas BETWEEN 990 AND 999",
    "group by, filtered": "SELECT namespace, count(*) FROM {view} WHERE spec_phase = 'Failed' GROUP BY 1",
    "group by, all objects": "SELECT spec_phase, count(*) FROM {view} GROUP BY 1",
    "group by two fields, filtered": "SELECT spec_team, ready_reason, count(*) FROM {view} WHERE NOT ready "
    "GROUP BY 1, 2",
    "top 20 by a number": "SELECT name, spec_replicas FROM {view} ORDER BY spec_replicas DESC LIMIT 20",
    "not ready for an hour": "SELECT name, ready_reason FROM {view} WHERE NOT ready AND ready_since < now() - "
    "interval '1 hour' ORDER BY ready_since LIMIT 100",
    "join of a child view": "SELECT c.image, count(*) FROM {view} a JOIN {view}__spec_containers c ON c.uid = a.uid "
    "WHERE a.spec_phase = 'Failed' GROUP BY 1",
    "one object": "SELECT * FROM {view} WHERE uid = (SELECT uid FROM {view} WHERE spec_phase = 'Failed' LIMIT 1)",
    "count of all": "SELECT count(*) FROM {view}",
    "group by a field without index": "SELECT spec_image, count(*) FROM {view} GROUP BY 1",
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--objects", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--plans", action="store_true")
    arguments.add_argument("--keep", type=Path, help="folder of a PostgreSQL that is kept and used again")
    given = arguments.parse_args()
    with _postgres(given.keep) as url:
        login = asyncio.run(_prepare(url, given.objects))
        print(f"{'question':<34} {'median ms':>10} {'rows':>8}")
        with psycopg.connect(login, autocommit=True) as connection:
            for name, text in QUERIES.items():
                query = text.format(view=VIEW).encode()
                times, rows = [], 0
                for _ in range(given.rounds):
                    start = time.perf_counter()
                    rows = len(connection.execute(query).fetchall())
                    times.append(time.perf_counter() - start)
                print(f"{name:<34} {statistics.median(times) * 1000:>10.1f} {rows:>8}")
                if given.plans:
                    for row in connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) " + query):
                        print("    ", row[0])


@contextlib.contextmanager
def _postgres(keep: Path | None) -> Iterator[str]:
    folder = keep or Path(tempfile.mkdtemp(prefix="registry-bench-"))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o711)
    server = EmbeddedPostgres(folder / "postgres")
    try:
        yield server.start()
    finally:
        server.stop()
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


async def _prepare(url: str, objects: int) -> str:
    """Fills the database where it is empty, and gives the URL of a login."""
    migrate.upgrade(url)
    store = await Store.open(url, housekeeping=False)
    pool = Pool(url, "bench", 1)
    try:
        known = {tenant.name for tenant in await store.tenants()}
        reporting = reporting_of(pool)
        await reporting.prepare()
        if "big" not in known:
            for name, count in (("small", objects // 10), ("big", objects)):
                tenant = await store.create_tenant(TenantName(name))
                report = report_of(CRD)
                await fill(url, tenant.id, documents_of(CRD).layout, count)
                await reporting.apply_report(tenant, report, 1, indexed=True)
        connection = await connect(url, "bench")
        try:
            password = await grant(connection, LoginSpec("bench", ("big",), False))
        finally:
            await connection.close()
    finally:
        await pool.close()
        await store.close()
    return url.replace("//registry@", f"//bench:{password}@")


async def fill(url: str, tenant: int, layout: str, count: int) -> None:
    connection = await connect(url, "bench")
    try:
        await connection.execute("SET statement_timeout = 0")
        started = time.perf_counter()
        for first in range(1, count + 1, 50_000):
            await connection.execute(
                FILL, {"tenant": tenant, "layout": layout, "first": first, "last": min(count, first + 49_999)}
            )
        await connection.execute("VACUUM ANALYZE objects")
        print(f"{count:,} objects in {time.perf_counter() - started:.0f} s")
    finally:
        await connection.close()


if __name__ == "__main__":
    main()
