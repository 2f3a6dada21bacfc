"""History in the console: restore, deletion with dependents, undelete."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.browser import Page
from tests.console.pictures import go, sign_in
from tests.console.seed import API, GROUP, MERGE, SHOP, manifest, ok
from tests.running import RunningServer

pytestmark = pytest.mark.slow

PROD = f"{SHOP}{API}/namespaces/prod/backups"


def test_restoring_an_earlier_state(page: Page, server: RunningServer, tokens: dict[str, str], http: Any) -> None:
    http.delete(f"{PROD}/changing")  # of an attempt before
    ok(http.post(PROD, json=manifest("Backup", "changing", {"schedule": "5 5 * * *", "keep": 5})))
    ok(http.patch(f"{PROD}/changing?fieldManager=later", json={"spec": {"keep": 6}}, headers=MERGE))
    sign_in(page, server, tokens["editor"])
    go(page, f"#/~/object/{GROUP}/v1/backups/prod/changing?tab=history", "spec.keep: 6")
    page.wait_text("by admin (patch, later)")
    page.click("Restore")
    page.wait_text("Restored from revision")
    page.wait_text("keep: 5")
    page.click("Restore")
    page.wait_text("Restored as it was at revision")
    assert ok(http.get(f"{PROD}/changing"))["spec"]["keep"] == 5
    page.wait_text("(restore")  # the history goes on by itself
    ok(http.delete(f"{PROD}/changing"))


def test_a_deletion_shows_what_depends_on_the_object_and_can_be_taken_back(
    page: Page, server: RunningServer, tokens: dict[str, str], http: Any
) -> None:
    for path in (f"{PROD}/owner", f"{PROD.replace('backups', 'runs')}/owned"):
        http.delete(path)  # of an attempt before
    made = ok(http.post(PROD, json=manifest("Backup", "owner", {"schedule": "6 6 * * *"})))
    owner = {"apiVersion": f"{GROUP}/v1", "kind": "Backup", "name": "owner", "uid": made["metadata"]["uid"]}
    ok(http.post(PROD.replace("backups", "runs"), json=manifest("Run", "owned", {}, ownerReferences=[owner])))
    sign_in(page, server, tokens["editor"])
    go(page, f"#/~/object/{GROUP}/v1/backups/prod/owner?tab=relations", "owned")
    page.click("Delete")
    page.wait_text("These are deleted with it:")
    page.wait_text("Run prod/owned")
    page.evaluate("[...document.querySelectorAll('dialog footer button')].at(-1).click()")
    page.wait_text("owner is deleted")
    assert http.get(f"{PROD}/owner").status_code == 404
    go(page, f"#/~/deleted/{GROUP}/v1/backups?ns=prod", "owner")
    page.click("owner")
    page.wait_text("Last state of owner")
    page.click("Undelete")
    page.wait_text("owner was restored, with a new uid.")
    again = ok(http.get(f"{PROD}/owner"))
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    ok(http.delete(f"{PROD}/owner"))


def test_a_namespace_is_deleted_by_its_name_only(page: Page, server: RunningServer, tokens: dict[str, str]) -> None:
    sign_in(page, server, tokens["editor"])
    go(page, "#/~/object/core/v1/namespaces/_/prod", "No changes")
    page.click("Delete")
    page.wait_text("These are deleted with it:")
    page.wait_text("Backup")
    last = "[...document.querySelectorAll('dialog footer button')].at(-1).disabled"
    assert page.evaluate(last) is True
    page.fill("dialog input", "pro")
    assert page.evaluate(last) is True
    page.press("d")
    page.wait(f"{last} === false")
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")


def test_the_use_of_a_quota_over_time(page: Page, server: RunningServer, tokens: dict[str, str]) -> None:
    sign_in(page, server, tokens["editor"])
    go(page, "#/~/object/core/v1/resourcequotas/default/limits?tab=history", "Create by")
    page.wait(
        "document.querySelector('.plot[aria-label^=\"Used: \"]')?.getAttribute('aria-label').includes('configmaps 1')"
    )


def test_the_past_of_a_deleted_object_is_still_there(page: Page, server: RunningServer, tokens: dict[str, str]) -> None:
    sign_in(page, server, tokens["editor"])
    go(page, f"#/~/object/{GROUP}/v1/backups/default/billing-5?tab=history", "It may have been deleted.")
    page.wait_text("Delete by admin")
    page.wait_text("Create by admin")
