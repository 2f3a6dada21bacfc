"""Markup and scripts in any field of an object are rendered as text on every page."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.console.browser import Page
from tests.console.pictures import go, sign_in
from tests.console.seed import GROUP, SHOP, define, definition, ok
from tests.running import RunningServer

pytestmark = pytest.mark.slow

MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\'"><svg onload=window.hacked=1>'
LINK = "javascript:window.hacked=1"
HTTP = f"{SHOP}/apis/{GROUP}/v1/namespaces/default/hostiles"


@pytest.fixture(scope="module")
def seeded(server: RunningServer) -> None:
    from tests.console.seed import client

    fields = {
        "text": {"type": "string", "description": MARKUP, "default": MARKUP, "enum": [MARKUP, LINK]},
        "link": {"type": "string", "pattern": "^[<>a-z:.=0-9]*$"},
    }
    schema = {
        "spec": {"type": "object", "description": MARKUP, "properties": fields},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    columns = [
        {"name": "Text", "type": "string", "jsonPath": ".spec.text", "description": MARKUP},
        {"name": MARKUP, "type": "string", "jsonPath": ".spec.link"},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    ]
    wanted = definition("hostiles", "Hostile", schema, additionalPrinterColumns=columns)
    wanted["metadata"]["annotations"] = {"note": MARKUP}
    wanted["spec"]["versions"][0] |= {"deprecated": True, "deprecationWarning": MARKUP.replace("\n", " ")[:200]}
    with client(server) as http:
        define(http, wanted)
        metadata = {"name": "evil", "annotations": {"a": MARKUP}, "finalizers": ["x.example/y"]}
        body = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Hostile",
            "metadata": metadata,
            "spec": {"text": MARKUP, "link": LINK},
        }
        made = ok(http.post(f"{HTTP}?fieldManager={quote(MARKUP[:60])}", json=body))
        status = {"phase": MARKUP, "conditions": [{"type": MARKUP, "status": MARKUP, "reason": MARKUP}, "text"]}
        ok(
            http.patch(
                f"{HTTP}/evil/status", json={"status": status}, headers={"Content-Type": "application/merge-patch+json"}
            )
        )
        owner = {"apiVersion": "v1", "kind": MARKUP, "name": MARKUP, "uid": "00000000-0000-0000-0000-000000000000"}
        patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
        http.patch(f"{HTTP}/evil", content=patch, headers={"Content-Type": "application/merge-patch+json"})
        event = {
            "metadata": {"name": "evil.1", "namespace": "default"},
            "involvedObject": {"uid": made["metadata"]["uid"], "namespace": "default", "kind": "Hostile", "name": "evil"},
            "reason": MARKUP[:100], "message": MARKUP, "type": "Normal", "source": {"component": MARKUP},
        }  # fmt: skip
        ok(http.post(f"{SHOP}/api/v1/namespaces/default/events", json=event))
        http.patch(
            "/clusters/system/apis/tenancy.registry/v1/tenants/labs",
            json={"spec": {"displayName": MARKUP}},
            headers={"Content-Type": "application/merge-patch+json"},
        )


OBJECT = f"#/shop/object/{GROUP}/v1/hostiles/default/evil"
PLACES = {
    "table": (f"#/shop/objects/{GROUP}/v1/hostiles", "evil"),
    "yaml": (OBJECT, "onerror"),
    "history": (f"{OBJECT}?tab=history", "Compare selected"),
    "events": (f"{OBJECT}?tab=events", "onerror"),
    "relations": (f"{OBJECT}?tab=relations", "Hostile"),
    "definition": (f"#/shop/definition/hostiles.{GROUP}", "onerror"),
    "schema": (f"#/shop/definition/hostiles.{GROUP}?tab=schema", "onerror"),
    "sql": (f"#/shop/definition/hostiles.{GROUP}?tab=sql", "Queries"),
    "figures": (f"#/shop/definition/hostiles.{GROUP}?tab=figures", "Writes"),
    "new": (f"#/shop/new/{GROUP}/v1/hostiles", "a name is required"),
    "tenants": ("#/~/tenants", "onerror"),
    "route": (f"#/shop/objects/{quote(MARKUP)}/v1/{quote(MARKUP)}", "serves no"),
    "definition of no name": (f"#/shop/definition/{quote(MARKUP, safe='')}", "onerror"),
    "object of no name": (f"#/shop/object/{GROUP}/v1/hostiles/default/{quote(MARKUP, safe='')}", "onerror"),
}


def test_hostile_content_is_not_executed(page: Page, server: RunningServer, seeded: None) -> None:
    sign_in(page, server, server.token)
    for name, (route, text) in PLACES.items():
        go(page, route, text)
        assert (
            page.evaluate(
                "document.querySelectorAll('#app img:not([src=\"icon.svg\"]), #app script, #app svg[onload]').length"
            )
            == 0
        ), name
        assert page.evaluate("window.hacked") is None, name
        assert (
            page.evaluate(
                "[...document.querySelectorAll('a')].filter(a => !['https:', 'http:'].includes(a.protocol)).length"
            )
            == 0
        ), name
    page.click("Sign out")


def test_an_inline_script_is_refused_by_the_policy(page: Page, server: RunningServer) -> None:
    """What a mistake of ours would let in, the browser does not run."""
    page.open(f"{server.url}/console/")
    page.wait("!!document.querySelector('input[name=token]')")
    made = "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.hacked=1'}))"
    with pytest.raises(AssertionError, match="TrustedScript"):
        page.evaluate(made)
    with pytest.raises(AssertionError, match="TrustedHTML"):
        page.evaluate(f"document.body.innerHTML = {json.dumps(MARKUP)}")
    with pytest.raises(AssertionError):
        page.evaluate("fetch('https://example.com/').then(() => 0)")
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in one or "TrustedHTML" in one for one in page.problems), page.problems
    page.problems.clear()


def test_the_page_is_not_framed(page: Page, server: RunningServer) -> Any:
    page.open(f"{server.url}/console/vendor/LICENSES.txt")
    page.evaluate(
        """new Promise(done => {
            const frame = Object.assign(document.createElement('iframe'), {src: '/console/', onload: () => done()});
            document.body.append(frame);
        })"""
    )
    assert page.evaluate("document.querySelector('iframe').contentDocument") is None
    page.problems.clear()
