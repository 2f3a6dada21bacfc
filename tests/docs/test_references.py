"""Every file, heading, module, command, setting and metric that pages and code name is there."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.references import headings, references

KINDS = (".md", ".py", ".sql", ".toml", ".yaml", ".yml", "Makefile", "Dockerfile", "run")
# What was recorded elsewhere, and these tests themselves, whose samples are broken.
NOT_OURS = ("tests/conformance/scenarios/", "tests/docs/references.py", "tests/docs/test_references.py")


def _files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_what_pages_and_code_refer_to_is_there() -> None:
    files = _files()
    read = [name for name in files if name.endswith(KINDS) and not name.startswith(NOT_OURS)]
    assert {"README.md", "docs/architecture.md", "registry/settings/declarations.py", "Makefile"} <= set(read)
    wrong = [found for name in read for found in references(name, (ROOT / name).read_text(), files)]
    assert not wrong, "\n".join(f"{f.file}:{f.line}: {f.text}: {f.problem}" for f in wrong)


FILES = ["registry/store/feed/feed.py", "registry/settings/declarations.py"]


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        pytest.param("a.py", "see registry/store/feed/feed.py.", [], id="path"),
        pytest.param("a.py", "see registry/store/gone.py.", ["registry/store/gone.py"], id="path-gone"),
        pytest.param("a.py", "Follows apiserver pkg/registry/rest/update.go", [], id="upstream-path"),
        pytest.param("a.py", "registry/store/f*/feed.py", [], id="pattern"),
        pytest.param("a.py", "registry/store/x*/feed.py", ["registry/store/x*/feed.py"], id="pattern-gone"),
        pytest.param("a.py", "as in feed.py", [], id="bare-file"),
        pytest.param("a.py", "as in food.py", ["food.py"], id="bare-file-gone"),
        pytest.param("a.py", "`registry.store.migrate.upgrade`", [], id="name-in-module"),
        pytest.param("a.py", "`registry.store.migrate.upgrode`", ["registry.store.migrate.upgrode"], id="name-gone"),
        pytest.param("a.py", "the logger `registry.requests`", [], id="logger"),
        pytest.param("a.py", "`Settings` (declarations.py)", [], id="name-in-file"),
        pytest.param("a.py", "`Sottings` (declarations.py)", ["`Sottings` (declarations.py)"], id="name-in-file-gone"),
        pytest.param("a.py", "order (facts: rest.md, rust.md)", ["rust.md"], id="facts"),
        pytest.param("a.py", "docs/settings.md#settings", [], id="heading-in-code"),
        pytest.param("a.py", "docs/settings.md#sittings", ["docs/settings.md#sittings"], id="heading-in-code-gone"),
        pytest.param("a.py", "REGISTRY_DATA_DIR, REGISTRY_DATUM", ["REGISTRY_DATUM"], id="variable"),
        pytest.param("docs/a.md", "[a](settings.md#settings), [b](https://x)", [], id="link"),
        pytest.param("docs/a.md", "[a](sittings.md)", ["sittings.md"], id="link-gone"),
        pytest.param("docs/a.md", "[a](settings.md#sittings)", ["settings.md#sittings"], id="link-heading-gone"),
        pytest.param("docs/a.md", "`make test`, `make tost`", ["make tost"], id="make"),
        pytest.param("docs/a.md", "`registry tenant create acme`", [], id="command"),
        pytest.param("docs/a.md", "`registry tenant creat acme`", ["registry tenant creat acme"], id="command-gone"),
        pytest.param("docs/a.md", "`--data-dir ./x`, `--no-sql-views`, `--as-uid`", [], id="flag"),
        pytest.param("docs/a.md", "`--dota-dir`", ["--dota-dir"], id="flag-gone"),
        pytest.param("docs/a.md", "`registry_uploads_refused_total`", [], id="metric"),
        pytest.param("docs/a.md", "`registry_uploads_lost`", ["registry_uploads_lost"], id="metric-gone"),
    ],
)
def test_a_reference_is_followed(name: str, text: str, wrong: list[str]) -> None:
    assert [found.text for found in references(name, text, FILES)] == wrong


def test_headings_have_the_anchors_that_pages_link_to() -> None:
    text = "# Tenants\n\n## What is kept, and where\n\n```sh\n# no heading\n```\n\n### `status` (of it)\n"
    assert headings(text) == ["tenants", "what-is-kept-and-where", "status-of-it"]


def test_every_page_can_be_reached() -> None:
    """From README.md, by links: a page that nobody finds is not read, and not corrected."""
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for link in (page.parent / target for target in _targets(page)):
            pages = sorted(link.glob("*.md")) if link.is_dir() else [link]
            waiting += [p.resolve() for p in pages if p.suffix == ".md"]
    assert sorted(set((ROOT / "docs").rglob("*.md")) - reached) == []


def _targets(page: Path) -> list[str]:
    return [t for t in re.findall(r"\]\(([^)#\s]+)", page.read_text()) if "://" not in t]
