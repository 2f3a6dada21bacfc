"""Server restarts and interrupted watches: the page reports them, recovers, and keeps unsaved input."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from tests.console.browser import Browser, Page
from tests.console.editing import edit
from tests.console.pictures import LIVE, go, sign_in
from tests.console.seed import API, BACKUP, COLUMNS, GROUP, SHOP, backup, client, define, definition, manifest, ok
from tests.folders import data_folder
from tests.replication import free_port
from tests.running import RunningServer, running_server, start_server

pytestmark = pytest.mark.slow


@pytest.fixture
def restarted(browser: Browser) -> Iterator[RunningServer]:
    """A server of its own, which the test stops and starts again at the same port."""
    with data_folder() as folder, running_server(folder / "data", "--port", str(free_port())) as running:
        with client(running) as http:
            tenant = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": "shop"}}
            ok(http.post("/clusters/system/apis/tenancy.registry/v1/tenants", json=tenant))
            define(http, definition("backups", "Backup", BACKUP, additionalPrinterColumns=COLUMNS))
            define(http, definition("runs", "Run", {}))
            for number in (1, 2):
                backup(http, number)
        yield running


def test_a_restart(browser: Browser, restarted: RunningServer) -> None:
    with browser.page() as looking, browser.page() as editing:
        for page in (looking, editing):
            sign_in(page, restarted, restarted.token)
        go(looking, f"#/shop/objects/{GROUP}/v1/backups", "billing-1")
        looking.wait(LIVE)
        go(editing, f"#/shop/object/{GROUP}/v1/backups/default/billing-1", "No changes")
        edit(editing, "keep: 4", "keep: 40")
        editing.wait_text("The server would accept this")
        restarted.stop()
        looking.wait_text("connection cut, trying again")
        assert "billing-1" in looking.text
        editing.click("Save")
        editing.wait_text("The server cannot be reached.")
        editing.wait_text("Nothing that you typed is lost.")
        again = start_server(restarted.data_dir, "--port", str(restarted.port))
        try:
            with client(again) as http:
                made = manifest("Backup", "aaa-after", {"schedule": "1 1 * * *"})
                ok(http.post(f"{SHOP}{API}/namespaces/default/backups", json=made))
                looking.wait_text("aaa-after")
                looking.wait(LIVE)
                looking.wait_no_text("trying again")
                assert "keep: 40" in editing.text
                editing.click("Save")
                editing.wait_text("Saved.")
                assert ok(http.get(f"{SHOP}{API}/namespaces/default/backups/billing-1"))["spec"]["keep"] == 40
        finally:
            dataclasses.replace(again).stop()
        assert looking.problems == editing.problems == []


def test_a_revision_that_is_gone_is_loaded_again(page: Page, server: RunningServer) -> None:
    """410: the list begins again, and says so."""
    sign_in(page, server, server.token)
    go(page, "#/shop/kinds", "Backup")
    page.evaluate(
        """(() => { const real = window.fetch; let cut = true; window.fetch = (url, options) => {
            if (cut && String(url).includes('watch=1')) {
                cut = false;
                const status = {kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version'};
                return Promise.resolve(new Response(JSON.stringify({type: 'ERROR', object: status}) + '\\n'));
            }
            return real(url, options);
        }; })()"""
    )
    go(page, f"#/shop/objects/{GROUP}/v1/backups", "the list was loaded again")
    page.wait_text("billing-1")
    page.wait(LIVE)
