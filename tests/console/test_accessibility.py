"""Accessibility of every page: axe (deque.com/axe) in light and dark mode, and keyboard navigation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.console.browser import Page, origin_of
from tests.console.pictures import PAGES, go, sign_in
from tests.running import RunningServer

pytestmark = pytest.mark.slow

AXE = Path(__file__).with_name("vendor") / "axe.min.js"
_RUN = """axe.run(document, {resultTypes: ['violations'], ...%s}).then(found => found.violations
    .filter(one => ['serious', 'critical'].includes(one.impact))
    .map(one => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 200) + ' ' + node.failureSummary).join(' | ')}`))"""


# The rules that look at colours: nothing else depends on the mode (app.css).
_OF_COLOURS = "{runOnly: ['color-contrast', 'link-in-text-block']}"


def faults(page: Page, rules: str = "{}") -> Any:
    return page.evaluate(_RUN % rules)


def with_axe(page: Page) -> None:
    """axe makes styles of its own, which the policy of the page forbids."""
    page.call("Page.setBypassCSP", enabled=True)


def test_axe_finds_no_serious_fault(page: Page, server: RunningServer) -> None:
    with_axe(page)
    page.open(f"{server.url}/console/")
    page.wait("!!document.querySelector('input[name=token]')")
    page.evaluate(AXE.read_text() + ";0")
    found = {"sign-in": faults(page)}
    page.fill("input[name=token]", server.token)
    page.click("Sign in")
    page.wait_text("Sign out")
    for name, (route, text) in PAGES.items():
        go(page, route, text)
        found[name] = faults(page)
        page.size(1280, 800, dark=True)
        found[f"{name} dark"] = faults(page, _OF_COLOURS)
        page.size(1280, 800)
    page.size(420, 800)
    go(page, *PAGES["objects"])
    found["objects narrow"] = faults(page)
    page.click("New")
    page.wait_text("a name is required")
    found["new narrow"] = faults(page)
    assert {name: what for name, what in found.items() if what} == {}


def test_dialogs_by_axe(page: Page, server: RunningServer) -> None:
    with_axe(page)
    sign_in(page, server, server.token)
    page.evaluate(AXE.read_text() + ";0")
    go(page, *PAGES["history"])
    page.click("Difference")
    page.wait_text("What changed in nightly")
    found = {"difference": faults(page)}
    page.press("Escape")
    page.wait("!document.querySelector('dialog')")
    page.click("Delete")
    page.wait_text("These are deleted with it:")
    found["delete"] = faults(page)
    page.click("Cancel")
    assert {name: what for name, what in found.items() if what} == {}


_FOCUSED = "(e => e.getAttribute('aria-label') || e.innerText || e.name || '')(document.activeElement)"


def test_the_keyboard_alone_leads_from_signing_in_to_a_saved_object(
    page: Page, server: RunningServer, tokens: dict[str, str]
) -> None:
    page.open(f"{server.url}/console/")
    page.wait("document.activeElement?.name === 'token'")
    page.type(tokens["editor"])
    page.press("Enter")
    page.wait_text("Custom kinds")
    page.press("/")
    page.wait("document.activeElement?.id === 'find'")
    page.type("bac")
    page.wait_text("backups.demo.example.com")
    page.press("Enter")
    page.wait_text("billing-1")
    for _ in range(60):  # to the first row
        page.press("Tab")
        if page.evaluate("!!document.activeElement.closest('tbody')"):
            break
    first = page.evaluate(_FOCUSED)
    page.press("ArrowDown")
    page.wait(f"{_FOCUSED} !== {first!r}")
    page.press("Enter")
    page.wait("location.hash.includes('/object/')")
    page.wait_text("No changes")
    assert first
    for _ in range(60):
        page.press("Tab")
        if page.evaluate("document.activeElement.className === 'editor'"):
            break
    assert page.evaluate("document.activeElement.className") == "editor"
    page.press("Tab")  # out of it again: no trap
    assert page.evaluate("document.activeElement.className") != "editor"


# What can be acted on and must be reached by Tab: all but what says that it is a second way (tabindex -1).
_ACTIVE = """[...document.querySelectorAll('a[href], button, input, select, textarea, summary, .editor')]
    .filter(e => e.checkVisibility() && !e.disabled && e.getAttribute('tabindex') !== '-1')"""


def test_everything_on_each_page_is_reached_by_tab(page: Page, server: RunningServer) -> None:
    sign_in(page, server, server.token)
    page.evaluate("window.seen = new Set(); addEventListener('focusin', event => seen.add(event.target)); 0")
    for name, (route, text) in PAGES.items():
        go(page, route, text)
        page.evaluate("(document.activeElement.blur(), window.seen = new Set(), 0)")
        missed: list[str] = [name]
        # Live pages may replace elements meanwhile, so it ends when nothing is left, not after one round. Each look lays out
        # the page, and none is needed before all could have been reached.
        pressed = 0
        while missed and pressed < 600:
            for _ in missed:
                page.press("Tab")
            pressed += len(missed)
            missed = page.evaluate(f"{_ACTIVE}.filter(e => !seen.has(e)).map(e => e.outerHTML.slice(0, 120))")
        assert missed == [], name


def test_each_page_fits_a_narrow_screen(page: Page, server: RunningServer) -> None:
    sign_in(page, server, server.token)
    page.size(360, 700)
    for route, text in PAGES.values():
        go(page, route, text)
        # Plots take their width a moment after they appear.
        page.wait("document.documentElement.scrollWidth <= 360")
        wide = "[...document.querySelectorAll('main > *, main > .heading *')].filter(e => e.getBoundingClientRect().right > 361)"
        page.wait(f"{wide}.length === 0")
    page.click("Menu")
    page.click("All kinds")
    page.wait_text("Short names")


def test_each_page_has_one_heading_and_a_title(page: Page, server: RunningServer) -> None:
    sign_in(page, server, server.token)
    for route, text in PAGES.values():
        go(page, route, text)
        page.wait("document.querySelectorAll('h1').length === 1")
        page.wait("document.title.endsWith('registry')")
    assert {origin_of(url) for url in page.requests if not url.startswith("data:")} <= {server.url, "about://"}
