"""Every page of the console, and the pictures of them in docs/console: `python -m tests.console.pictures`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tests.console.browser import CHROMIUM, Page, running_browser
from tests.console.seed import GROUP, seed
from tests.folders import data_folder
from tests.running import RunningServer, running_server

PICTURES: Final = Path(__file__).parents[2] / "docs" / "console"
_NIGHTLY: Final = f"#/shop/object/{GROUP}/v1/backups/prod/nightly"
_DEFINITION: Final = f"#/shop/definition/backups.{GROUP}"
# Where each page is, and a text by which it is there.
PAGES: Final = {
    "overview": ("#/shop", "count/backups"),
    "kinds": ("#/shop/kinds", "Backup"),
    "objects": (f"#/shop/objects/{GROUP}/v1/backups", "billing-37"),
    "object": (_NIGHTLY, "No changes"),
    "new": (f"#/shop/new/{GROUP}/v1/backups", "a name is required"),
    "history": (f"{_NIGHTLY}?tab=history", "Compare selected"),
    "events": (f"{_NIGHTLY}?tab=events", "SlowTarget"),
    "relations": (f"{_NIGHTLY}?tab=relations", "Refresh"),
    "deleted": (f"#/shop/deleted/{GROUP}/v1/backups", "billing-5"),
    "definitions": ("#/shop/definitions", f"backups.{GROUP}"),
    "definition": (_DEFINITION, "Stored versions"),
    "schema": (f"{_DEFINITION}?tab=schema", "When to back up"),
    "figures": (f"{_DEFINITION}?tab=figures", "Ready is True"),
    "sql": (f"{_DEFINITION}?tab=sql", "registry sql grant analyst"),
    "tenants": ("#/~/tenants", "team-9"),
}


# Whether the list on the page is watched.
LIVE: Final = "document.querySelector('.live')?.innerText === 'live'"


def sign_in(page: Page, server: RunningServer, token: str) -> None:
    page.open(f"{server.url}/console/")
    page.fill("input[name=token]", token)
    page.click("Sign in")
    page.wait_text("Sign out")
    page.wait("!!document.querySelector('main h1, main .notice')")  # its keys and routes are at work


# Changes the route, and resolves when the page has drawn it: what is read then is not of the page before.
_ROUTE = """(route => new Promise(done => {
    const before = location.href;
    addEventListener('hashchange', () => done(), {once: true});
    location.hash = route;
    if (location.href === before) done();
}))"""


def go(page: Page, route: str, text: str) -> None:
    """Opens a page, and waits until a text is on it."""
    page.evaluate(f"{_ROUTE}({route!r})")
    page.wait_text(text)
    page.wait("document.fonts.status === 'loaded' && !document.querySelector('.loading')")


def search(page: Page, name: str, text: str) -> None:
    """Types into a field above a list, and Enter."""
    page.fill(f"input[name={name}]", text)
    page.press("Enter")


def take(page: Page, server: RunningServer, folder: Path) -> None:
    page.size(1100, 700)
    page.open(f"{server.url}/console/")
    page.wait("!!document.querySelector('input[name=token]')")
    page.screenshot(folder / "sign-in.png")
    sign_in(page, server, server.token)
    for name, (route, text) in PAGES.items():
        go(page, route, text)
        page.evaluate("new Promise(done => setTimeout(done, 400))")  # until what has just changed looks like the rest
        page.screenshot(folder / f"{name}.png")
    go(page, *PAGES["history"])
    page.click("Difference")
    page.wait("!!document.querySelector('.difference-box > div')")
    page.evaluate("new Promise(done => setTimeout(done, 400))")
    page.screenshot(folder / "difference.png")


def main() -> None:
    if CHROMIUM is None:
        sys.exit("chromium is not on this machine")
    PICTURES.mkdir(exist_ok=True)
    with data_folder() as data, running_server(data / "data") as server, running_browser() as browser:
        seed(server)
        with browser.page() as page:
            take(page, server, PICTURES)
            assert page.problems == [], page.problems


if __name__ == "__main__":
    main()
