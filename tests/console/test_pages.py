"""The console in a real browser: signing in, reading and editing, as users with different rights."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.console.browser import Page, origin_of
from tests.console.editing import edit
from tests.console.pictures import LIVE, PAGES, go, search, sign_in
from tests.console.seed import API, GROUP, MERGE, SHOP, manifest, ok
from tests.running import RunningServer

pytestmark = pytest.mark.slow

BACKUPS = f"/objects/{GROUP}/v1/backups"
NIGHTLY = f"/object/{GROUP}/v1/backups/prod/nightly"
_LATE_USER = """(() => { const real = window.fetch; window.fetch = async (url, options) => {
    if (String(url).includes('selfsubjectreviews')) await new Promise(done => setTimeout(done, 1500));
    return real(url, options);
}; })()"""


def test_signing_in_with_a_token_leaves_no_trace_of_it(
    page: Page, server: RunningServer, tokens: dict[str, str]
) -> None:
    token = tokens["editor"]
    sign_in(page, server, token)
    page.wait_text("editor")
    go(page, "#/~" + BACKUPS, "billing-1")
    assert token not in page.evaluate("location.href")
    assert page.evaluate("localStorage.length") == 0
    assert page.evaluate("document.cookie") == ""
    assert token not in server.log
    page.reload()
    page.wait_text("billing-1")  # a reload does not end the session
    page.click("Sign out")
    page.wait("!!document.querySelector('input[name=token]')")
    assert page.evaluate("sessionStorage.length") == 0
    assert {origin_of(url) for url in page.requests if not url.startswith("data:")} <= {server.url, "about://"}


def test_a_wrong_token_is_refused(page: Page, server: RunningServer) -> None:
    page.open(f"{server.url}/console/")
    page.fill("input[name=token]", "registry.shop.no.token")
    page.click("Sign in")
    page.wait_text("The server does not accept this token.")


def test_signing_in_with_a_kubeconfig(page: Page, server: RunningServer, tokens: dict[str, str]) -> None:
    config = {
        "current-context": "certificate",
        "clusters": [{"name": "c", "cluster": {"server": f"{server.url}/clusters/shop"}}],
        "users": [{"name": "t", "user": {"token": tokens["editor"]}}, {"name": "x", "user": {"client-certificate-data": "…"}}],
        "contexts": [
            {"name": "certificate", "context": {"cluster": "c", "user": "x"}},
            {"name": "token", "context": {"cluster": "c", "user": "t"}},
        ],
    }  # fmt: skip
    page.open(f"{server.url}/console/")
    page.click("Kubeconfig")
    page.fill("textarea", json.dumps(config))
    page.wait_text("signs in with a client certificate, which a page cannot use")
    page.evaluate(
        "(s => { s.value = 'token'; s.dispatchEvent(new Event('change', {bubbles: true})); })(document.querySelector('select'))"
    )
    page.click("Sign in to shop")
    page.wait_text("Sign out")
    assert page.evaluate("location.hash").startswith("#/shop")


def test_objects_are_live_filtered_and_sorted(
    page: Page, server: RunningServer, tokens: dict[str, str], http: Any
) -> None:
    sign_in(page, server, tokens["editor"])
    go(page, "#/~" + BACKUPS, "39 objects")
    page.wait(LIVE)
    path = f"{SHOP}{API}/namespaces/default/backups"
    http.delete(f"{path}/aaa-live")  # of an attempt before
    ok(http.post(path, json=manifest("Backup", "aaa-live", {"schedule": "9 9 * * *"})))
    page.wait_text("aaa-live")
    ok(http.patch(f"{path}/aaa-live/status", json={"status": {"phase": "Pondering"}}, headers=MERGE))
    page.wait_text("Pondering")
    ok(http.delete(f"{path}/aaa-live"))
    page.wait_no_text("aaa-live")
    page.click("Keep")
    page.wait("document.querySelector('th[aria-sort=ascending]')?.innerText.startsWith('Keep')")
    values = "[...document.querySelectorAll('tbody td.numeric')].map(e => Number(e.innerText))"
    page.wait(f"({values}).every((value, index, all) => index === 0 || all[index - 1] <= value)")
    search(page, "filter", "mail")
    page.wait_text("10 objects")
    go(page, f"#/~{BACKUPS}?labels=team%3Dstorage&ns=prod", "nightly")
    page.wait_text("4 objects")
    go(page, f"#/~{BACKUPS}", "39 objects")
    search(page, "filter", "object.spec.keep == 11")
    page.wait_text("4 objects")
    search(page, "filter", "object.spec.nosuch == 11")
    page.wait_text("undefined field 'nosuch'")
    page.click("Clear filter and sorting")
    page.wait_text("39 objects")


def test_the_text_of_a_filter_survives_changes_of_the_list(
    page: Page, server: RunningServer, tokens: dict[str, str], http: Any
) -> None:
    sign_in(page, server, tokens["editor"])
    go(page, "#/~" + BACKUPS, "billing-1")
    page.wait(LIVE)
    page.fill("input[name=filter]", "object.spec.ke")
    path = f"{SHOP}{API}/namespaces/default/backups/aaa-typing"
    http.delete(path)  # of an attempt before
    ok(http.post(path.rpartition("/")[0], json=manifest("Backup", "aaa-typing", {"schedule": "9 9 * * *"})))
    page.wait_text("aaa-typing")
    assert page.evaluate("document.querySelector('input[name=filter]').value") == "object.spec.ke"
    ok(http.delete(path))
    page.wait_no_text("aaa-typing")


def test_an_object_is_validated_while_typing_and_saved(
    page: Page, server: RunningServer, tokens: dict[str, str], http: Any
) -> None:
    sign_in(page, server, tokens["editor"])
    path = f"{SHOP}{API}/namespaces/default/backups/storage-4"
    ok(http.patch(path, json={"spec": {"keep": 7, "paused": False}}, headers=MERGE))  # also after an attempt before
    go(page, f"#/~/object/{GROUP}/v1/backups/default/storage-4", "No changes")
    edit(page, "keep: 7", "keep: 0")
    page.wait_text("must be at least 1")  # the schema, at once
    edit(page, "keep: 0", "keep: 1")
    edit(page, "paused: false", "paused: true")
    page.wait_text("a paused backup must keep more than one")  # the rule, by the server's dry run
    assert ok(http.get(path))["spec"]["keep"] == 7
    edit(page, "keep: 1", "keep: 5")
    page.wait_text("The server would accept this")
    page.click("Save")
    page.wait_text("Saved.")
    assert ok(http.get(path))["spec"] == {"keep": 5, "paused": True, "schedule": "4 3 * * *", "target": "disk"}


def test_a_new_object(page: Page, server: RunningServer, tokens: dict[str, str], http: Any) -> None:
    sign_in(page, server, tokens["editor"])
    http.delete(f"{SHOP}{API}/namespaces/prod/backups/fresh")  # of an attempt before
    go(page, f"#/~/new/{GROUP}/v1/backups?ns=prod", "a name is required")
    edit(page, 'name: ""', "name: fresh")
    edit(page, 'schedule: ""', 'schedule: "1 2 3 4 5"')
    page.wait_text("The server would accept this")
    page.click("Create")
    page.wait_text("Created.")
    page.wait("location.hash.endsWith('/prod/fresh')")
    page.wait_text("No changes")  # the object has been loaded
    ok(http.delete(f"{SHOP}{API}/namespaces/prod/backups/fresh"))
    page.wait_text("This object has been deleted.")


def test_a_conflict_is_shown_as_a_difference_and_nothing_typed_is_lost(
    page: Page, server: RunningServer, tokens: dict[str, str], http: Any
) -> None:
    sign_in(page, server, tokens["editor"])
    path = f"{SHOP}{API}/namespaces/default/backups/mail-7"
    ok(http.patch(path, json={"spec": {"keep": 10, "target": "disk"}}, headers=MERGE))  # also after an attempt before
    # The name of the user, under which drafts are kept, comes after everything else.
    page.call("Page.addScriptToEvaluateOnNewDocument", source=_LATE_USER)
    page.reload()
    page.wait("!!document.querySelector('main h1')")
    go(page, f"#/~/object/{GROUP}/v1/backups/default/mail-7", "No changes")
    edit(page, "keep: 10", "keep: 44")
    ok(http.patch(f"{path}?fieldManager=someone", json={"spec": {"target": "cloud"}}, headers=MERGE))
    page.wait_text("The object was changed meanwhile by someone")
    page.reload()
    page.wait_text("ago is restored")
    page.wait_text("keep: 44")
    page.click("Save")
    page.wait_text("The server's version is on the left")
    page.wait_text("target: cloud")
    page.wait_text("keep: 44")
    page.click("Save mine")
    page.wait_text("Saved.")
    saved = ok(http.get(path))["spec"]
    assert (saved["keep"], saved["target"]) == (44, "disk")


def test_the_conflicts_of_an_apply_name_the_manager(
    page: Page, server: RunningServer, tokens: dict[str, str], http: Any
) -> None:
    sign_in(page, server, tokens["editor"])
    path = f"{SHOP}{API}/namespaces/default/backups/search-2"
    applied = manifest("Backup", "search-2", {"keep": 30, "schedule": "2 3 * * *"})
    apply = {"Content-Type": "application/apply-patch+yaml"}
    ok(http.patch(f"{path}?fieldManager=gitops&force=true", content=json.dumps(applied), headers=apply))
    go(page, f"#/~/object/{GROUP}/v1/backups/default/search-2", "No changes")
    edit(page, "keep: 30", "keep: 31")
    page.click("Apply")
    page.wait_text('conflict with "gitops"')
    page.click("Take ownership")
    page.wait_text("Applied.")
    assert ok(http.get(path))["spec"]["keep"] == 31


def test_a_reader_sees_no_button_that_would_be_refused(
    page: Page, server: RunningServer, tokens: dict[str, str]
) -> None:
    sign_in(page, server, tokens["reader"])
    go(page, "#/~" + BACKUPS, "live")
    go(page, "#/~" + NIGHTLY, "You can read this object, but not change it.")
    buttons = "[...document.querySelectorAll('main button, main a.button')].map(e => e.innerText)"
    assert not {"Save", "Apply", "Delete", "New", "Deleted"} & set(page.evaluate(buttons))
    go(page, "#/~" + BACKUPS, "39 objects")
    assert page.evaluate(buttons + ".filter(e => ['New', 'Deleted'].includes(e))") == []
    go(page, "#/~/definitions", "backups.demo.example.com")
    assert "Tenants" not in page.text
    writing = {"Save", "Apply", "Create", "Delete", "New", "Deleted", "Restore", "Undelete", "Define one"}
    for name, (route, text) in PAGES.items():
        if name in ("overview", "tenants", "history", "deleted", "new"):
            continue  # what this user may not read
        go(page, route.replace("#/shop", "#/~"), text if name != "object" else "apiVersion: demo")
        assert not writing & set(page.evaluate(buttons)), name
    # A page whose address somebody sends says that it is not open.
    go(page, f"#/~/deleted/{GROUP}/v1/backups", "You do not have permission for this.")
    go(page, f"#/~/new/{GROUP}/v1/backups", "You may not create a Backup there.")
    assert not writing & set(page.evaluate(buttons))


def test_each_page_as_a_user_of_the_tenant(page: Page, server: RunningServer, tokens: dict[str, str]) -> None:
    sign_in(page, server, tokens["editor"])
    for name, (route, text) in PAGES.items():
        if name not in ("overview", "tenants"):
            go(page, route.replace("#/shop", "#/~"), text)
    go(page, "#/~", "Backup")
    assert "labs" not in page.text
    assert "Tenants" not in page.text


def test_a_user_of_a_tenant_sees_no_other(page: Page, server: RunningServer, tokens: dict[str, str]) -> None:
    sign_in(page, server, tokens["editor"])
    go(page, "#/~/kinds", "Backup")
    assert "Tenants" not in page.text
    go(page, "#/labs", "You do not have permission for this.")
    go(page, "#/no-such-tenant", "You do not have permission for this.")


def test_a_user_without_rights_sees_the_reason(page: Page, server: RunningServer, tokens: dict[str, str]) -> None:
    sign_in(page, server, tokens["nobody"])
    go(page, "#/~" + BACKUPS, "You may not list all namespaces.")


def test_the_token_expires(page: Page, server: RunningServer, tokens: dict[str, str], http: Any) -> None:
    """What was typed is still there after signing in again."""
    sign_in(page, server, tokens["editor"])
    go(page, f"#/~/object/{GROUP}/v1/backups/default/mail-11", "No changes")
    edit(page, "keep: 5", "keep: 55")
    page.evaluate(
        "sessionStorage.setItem('registry.session', JSON.stringify({token: 'registry.shop.x.y', tenant: '~'}))"
    )
    page.reload()
    page.wait_text("Your session has expired.")
    page.fill("dialog input[name=token]", tokens["editor"])
    page.click("Sign in")
    page.wait_text("ago is restored")
    page.wait_text("keep: 55")
    page.wait_text("The server would accept this")
    page.click("Discard")
    page.wait_text("No changes")


def test_nothing_of_one_tenant_is_shown_under_the_name_of_another(page: Page, server: RunningServer) -> None:
    sign_in(page, server, server.token)
    go(page, "#/shop", "Custom kinds")
    page.wait("document.querySelector('.side').innerText.includes('Backup')")
    page.evaluate("void (location.hash = '#/no-such-tenant')")
    page.wait_text("the tenant does not exist")
    assert "Backup" not in page.text
