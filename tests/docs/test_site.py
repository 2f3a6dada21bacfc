"""The site of the documentation has every page, each in one place; `make docs-site` builds it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.docs.pages import ROOT

SITE: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
DOCS = ROOT / "docs"


def _pages(entries: Any) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    values = entries.values() if isinstance(entries, dict) else entries
    return [page for value in values for page in _pages(value)]


def test_every_page_is_in_the_navigation_once() -> None:
    written = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert sorted(_pages(SITE["nav"])) == sorted(page for page in written if not page.startswith("facts/"))


def test_the_first_page_leads_to_every_page() -> None:
    """Decisions are reached through the first of them, which the navigation lists beside the others."""
    linked = set(re.findall(r"\]\(([^)#]+\.md)", (DOCS / "index.md").read_text()))
    pages = {page for page in _pages(SITE["nav"]) if not page.startswith("decisions/")} - {"index.md"}
    assert pages - linked == set()


def test_links_between_pages_lead_to_pages() -> None:
    for page in [*DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.relative_to(Path(ROOT))}: {target}"
