"""Server-side filtering, sorting and counts: 12,000 objects of a kind, 110 definitions, 210 tenants.

More objects than the server sorts without an index (registry/api/query/reading.py), and several pages of each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.console.browser import Browser, Page
from tests.console.pictures import LIVE, go, search, sign_in
from tests.console.seed import API, GROUP, MERGE, client, define, definition, manifest, ok
from tests.databases import temporary_database
from tests.folders import data_folder
from tests.running import RunningServer, running_server

logger = logging.getLogger(__name__)
pytestmark = pytest.mark.slow

OBJECTS = 12_000
DEFINITIONS = 110
TENANTS = 210
BIG = "/clusters/big"
LIST = f"#/big/objects/{GROUP}/v1/parts"
SCHEMA = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}
COLUMNS = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]

# Copies of one object, as if somebody had made them one by one: part-00001 has the size 7919, part-00002 15838 ...
COPY_OBJECTS = """
    INSERT INTO objects (tenant_id, resource, key, uid, revision, version, schema_id, body, created_at, updated_at)
    SELECT tenant_id, resource, 'default/part-' || lpad(n::text, 5, '0'), gen_random_uuid(), revision, version, schema_id,
        replace(replace(replace(body, 'part-00000', 'part-' || lpad(n::text, 5, '0')), '"size":0', '"size":' || n * 7919 %% %(count)s),
            uid, gen_random_uuid()::text), created_at, updated_at
    FROM objects, generate_series(1, %(count)s - 1) n WHERE key = 'default/part-00000'
"""
ANALYZE = "VACUUM ANALYZE objects"


@pytest.fixture(scope="module")
def large(browser: Browser, postgres_server: str, template_database: str) -> Iterator[RunningServer]:
    with (
        temporary_database(postgres_server, template_database) as url,
        data_folder() as folder,
        running_server(folder / "data", "--database-url", url, "--workers", "2", "--no-sql-views") as running,
        client(running) as http,
    ):
        for name in ("big", *(f"tenant-{number:04}" for number in range(TENANTS - 3))):
            tenant = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}}
            ok(http.post("/clusters/system/apis/tenancy.registry/v1/tenants", json=tenant))
        define(http, definition("parts", "Part", SCHEMA, additionalPrinterColumns=COLUMNS), BIG)
        for number in range(DEFINITIONS - 1):
            wanted = definition(f"kind{number:03}s", f"Kind{number:03}", SCHEMA)
            ok(http.post(f"{BIG}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=wanted))
        ok(http.post(f"{BIG}{API}/namespaces/default/parts", json=manifest("Part", "part-00000", {"size": 0})))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(COPY_OBJECTS, {"count": OBJECTS})
            connection.execute(ANALYZE)
        yield running


@pytest.fixture
def admin(page: Page, large: RunningServer) -> Page:
    sign_in(page, large, large.token)
    return page


@pytest.fixture
def api(large: RunningServer) -> Iterator[Any]:
    with client(large) as http:
        yield http


_CELLS = "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))"
# From the change of the route to the first row, in ms, by the page's own clock.
_FIRST_ROW = """(route => new Promise(done => {
    const began = performance.now();
    const look = () => document.querySelector('.table-box td') && location.hash === route
        ? done(performance.now() - began) : requestAnimationFrame(look);
    location.hash = route;
    look();
}))"""


def sizes(page: Page) -> list[int]:
    return [int(row[2]) for row in page.evaluate(_CELLS)]


def test_first_rows_of_large_lists(admin: Page) -> None:
    """A page of each is there without reading the rest. Times are logged, and no reason to fail on a busy machine."""
    for route, text in ((LIST, "part-00099"), ("#/big/definitions", "kind050s"), ("#/~/tenants", "tenant-0050")):
        go(admin, "#/big/objects/core/v1/secrets", "There are no objects.")
        took = admin.evaluate(f"{_FIRST_ROW}({route!r})")
        logger.info("first row of %s after %.0f ms", route, took)  # shown by --log-cli-level=info
        admin.wait_text(text)
        assert len(admin.evaluate(_CELLS)) == 100
    go(admin, LIST, f"{OBJECTS:,} objects")
    go(admin, "#/big/definitions", f"{DEFINITIONS} objects")
    go(admin, "#/~/tenants", f"{TENANTS:,} objects")


def test_a_list_is_sorted_and_filtered_whole(admin: Page, api: Any) -> None:
    """Without an index the server refuses, in its own words; with one it sorts and filters all objects."""
    _declare_index(api, None)  # an earlier attempt may have left it
    _wait_for_sorted_list(admin, 400)
    go(admin, LIST, f"{OBJECTS:,} objects")
    admin.click("Size")
    admin.wait_text('query.registry/index: "spec.size"')
    admin.click("Clear filter and sorting")
    admin.wait_text(f"{OBJECTS:,} objects")
    _declare_index(api, "spec.size")
    _wait_for_sorted_list(admin, 200)
    admin.click("Size")
    admin.wait(f"({_CELLS})[0]?.[1] === 'part-00000' && ({_CELLS})[99]?.[2] === '99'")
    assert sizes(admin) == list(range(100))
    admin.click("Next")
    admin.wait(f"({_CELLS})[0]?.[2] === '100'")
    assert sizes(admin) == list(range(100, 200))
    admin.click("Size▲")
    admin.wait(f"({_CELLS})[0]?.[2] === '{OBJECTS - 1}'")
    assert sizes(admin) == list(range(OBJECTS - 1, OBJECTS - 101, -1))
    search(admin, "filter", "object.spec.size >= 6000 && object.spec.size < 6003")
    admin.wait_text("3 objects")
    assert sizes(admin) == [6_002, 6_001, 6_000]


def _declare_index(api: Any, index: str | None) -> None:
    annotations = {"query.registry/index": index, "query.registry/condition": "true"}
    path = f"{BIG}/apis/apiextensions.k8s.io/v1/customresourcedefinitions/parts.{GROUP}"
    ok(api.patch(path, json={"metadata": {"annotations": annotations}}, headers=MERGE))


def _wait_for_sorted_list(page: Page, code: int) -> None:
    """Waits until the list sorted by size is answered with this code: 200 with an index, 400 without."""
    page.wait(
        f"fetch('{BIG}{API}/parts?orderBy=spec.size&limit=1', {{headers: {{Authorization: 'Bearer ' + "
        f"JSON.parse(sessionStorage.getItem('registry.session')).token}}}}).then(answer => answer.status === {code})",
        seconds=300,
    )


def test_any_page_can_be_reached_and_is_live(admin: Page, api: Any) -> None:
    go(admin, LIST, f"{OBJECTS:,} objects")
    admin.click("Next")  # the server skips none of so many without an index: by the token of the page before
    admin.wait_text("part-00199")
    admin.wait_text(f"101 to 200 of {OBJECTS:,}")
    admin.wait("document.querySelector('.live')?.innerText === 'not live'")
    admin.click("Next")
    admin.wait_text("part-00299")
    admin.click("Previous")
    admin.wait_text("part-00199")
    admin.click("First")
    admin.wait_text("part-00000")
    admin.wait(LIVE)
    path = f"{BIG}{API}/namespaces/default/parts"
    ok(api.post(path, json=manifest("Part", "aaa-first", {"size": -1})))
    admin.wait_text("aaa-first")
    ok(api.delete(f"{path}/aaa-first"))
    admin.wait_no_text("aaa-first")
    assert len(admin.evaluate(_CELLS)) == 100


def test_definitions_and_tenants_are_found_among_many(admin: Page) -> None:
    go(admin, "#/big/definitions", f"{DEFINITIONS} objects")
    search(admin, "filter", f"kind{DEFINITIONS - 1}")
    admin.wait_text("No objects match.")
    search(admin, "filter", f"kind{DEFINITIONS - 2}")
    admin.wait_text("1 object")
    admin.click(f"Kind{DEFINITIONS - 2}")
    admin.wait_text("Stored versions")
    go(admin, "#/~/tenants?sort=-metadata.name", f"tenant-{TENANTS - 4:04}")
    search(admin, "filter", "0042")
    admin.wait_text("1 object")
    admin.click("tenant-0042")
    admin.wait("location.hash.startsWith('#/tenant-0042')")


def test_figures_of_a_large_kind(admin: Page) -> None:
    go(admin, f"#/big/definition/parts.{GROUP}?tab=figures", f"{OBJECTS:,} objects")
