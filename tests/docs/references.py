"""References from pages and code, found by their form and followed to what they name.

A `Reference` is (file, line, text, problem): `problem` says what the text names that is not there. Whatever is written
in one of these forms is followed:

    registry/store/feed/feed.py    a path from the root of the tree; `*` stands for anything
    feed/feed.py, feed.py          a Python file by the end of its path
    registry.store.migrate         a module, or a name in one, in backticks
    `guaranteed_update` (update.py)    a name in backticks, and in brackets the file that holds it
    (facts: rest.md, schema.md)    pages of docs/facts
    [text](page.md#heading)        links of pages
    docs/sql.md#heading            the same in code
    `make lint`, `registry tenant create`, `--data-dir`, REGISTRY_DATA_DIR, `registry_upload_bytes`
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from glob import glob
from pathlib import Path
from typing import NamedTuple

from registry.cli.root import parser
from registry.settings.declarations import declarations
from tests.docs.pages import ROOT


class Reference(NamedTuple):
    file: str
    line: int
    text: str
    problem: str


# Trees and files of other projects, what a run writes, and samples that are meant to name nothing.
ELSEWHERE = frozenset(
    {"tests/simple/testdata", "tests/simple/testdata/*.textproto", "tests/1", "benchmarks/results"}
    | {"registry/api/create.py"}  # in a made up traceback, tests/fuzz
)
FLAGS_OF_KUBECTL = frozenset({"--raw", "--cascade", "--as", "--as-group", "--as-uid"})
# Variables that are no settings of the server: of the tests, of compose, of the key in the environment.
OTHER_VARIABLES = frozenset(
    {"REGISTRY_ENCRYPTION_KEYS", "REGISTRY_HOSTS", "REGISTRY_REAL_DEFINITIONS", "REGISTRY_TEST_DATABASE_URL"}
    | {"REGISTRY_TEST_COMPOSE", "REGISTRY_TEST_CLIENT_GO", "REGISTRY_TEST_CLIENT_JAVA", "REGISTRY_TEST_NODE_MODULES"}
    | {"REGISTRY_TEST_OPENAPI_GENERATOR"}
    | {"REGISTRY_TEST_OFFICIAL_SUITES", "REGISTRY_TEST_REVISIONS"}
)
# Where flags, metrics and loggers are named.
CODE = ("registry", "benchmarks", "tests/conformance")
# Pages about other projects, whose files they name as we name ours: only their links are followed.
OTHERS_FILES = ("docs/style.md", "docs/facts/")

_TOP = "registry|migrations|tests|tools|benchmarks|docs|examples|image|requirements"
_PATH = re.compile(rf"(?<![\w/.@:<>-])(?:{_TOP})/[\w./*-]*+(?![\\(])")
_FILE = re.compile(r"(?<![\w/.*{}<>-])(?:[a-z_]\w*/)*[a-z_]\w*\.py\b")
_MODULE = re.compile(r"`(?:python -m )?((?:registry|benchmarks|tests|migrations)(?:\.\w+)+)`")
_NAME_IN_FILE = re.compile(r"`(\w+)`,? \(([\w/]+\.py)\)")
_FACTS = re.compile(r"\bfacts: ((?:[\w-]+\.md(?:, )?)+)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING_IN_CODE = re.compile(r"\b(docs/[\w/-]+\.md)#([\w-]+)")
_SPAN = re.compile(r"`([^`\n]+)`")
_VARIABLE = re.compile(r"\bREGISTRY_[A-Z][A-Z_]*[A-Z]\b")
_METRIC = re.compile(r"`((?:registry|apiserver)_[a-z_]+)")


def references(name: str, text: str, files: Sequence[str]) -> Iterator[Reference]:
    """The broken references of a file; `files` are all files of the tree."""
    found = [*_in_any(name, text, files), *(_in_page(name, text) if name.endswith(".md") else ())]
    for at, what, problem in found:
        if problem:
            yield Reference(name, text.count("\n", 0, at) + 1, what, problem)


_Found = tuple[int, str, str]


def _in_any(name: str, text: str, files: Sequence[str]) -> Iterator[_Found]:
    if not name.startswith(OTHERS_FILES):
        for hit in _PATH.finditer(text):
            path = hit[0].rstrip("./-")
            if not path.endswith((".go", ".py")) or "*" in path:
                yield hit.start(), path, "" if path in ELSEWHERE or _exists(path) else "no such file"
        for hit in _FILE.finditer(text):
            yield hit.start(), hit[0], "" if hit[0] in ELSEWHERE or hit[0] in _ends(tuple(files)) else "no such file"
    for hit in _MODULE.finditer(text):
        yield hit.start(), hit[1], "" if _is_module(hit[1]) else "no such module"
    for hit in _NAME_IN_FILE.finditer(text):
        yield hit.start(), hit[0], "" if _holds(hit[2], hit[1], files) else f"{hit[2]} has no {hit[1]}"
    for hit in _FACTS.finditer(text):
        for page in hit[1].split(", "):
            yield hit.start(), page, "" if (ROOT / "docs/facts" / page).exists() else "no such page"
    for hit in _HEADING_IN_CODE.finditer(text):
        yield hit.start(), hit[0], _wrong_heading(ROOT / hit[1], hit[2])
    for hit in _VARIABLE.finditer(text):
        known = hit[0] in OTHER_VARIABLES or hit[0] in _variables()
        yield hit.start(), hit[0], "" if known else "no such setting"


def _in_page(name: str, text: str) -> Iterator[_Found]:
    for hit in _LINK.finditer(text):
        target, _, heading = hit[1].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        page = (ROOT / name).parent / target if target else ROOT / name
        missing = "" if page.exists() else "no such page"
        yield hit.start(), hit[1], missing or (_wrong_heading(page, heading) if heading else "")
    for hit in _METRIC.finditer(text):
        yield hit.start(), hit[1], "" if _is_metric(hit[1]) else "no such metric"
    for hit in () if name.startswith(OTHERS_FILES) else _SPAN.finditer(text):
        yield hit.start(), hit[1], _wrong_command(hit[1])


def headings(text: str) -> list[str]:
    """The anchors of a page as GitHub makes them: `## What is kept, and where` gives `what-is-kept-and-where`."""
    lines = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", line.lower().strip()).replace(" ", "-") for line in lines]


def _wrong_heading(page: Path, heading: str) -> str:
    if not page.exists():
        return "no such page"
    return "" if heading in headings(page.read_text()) else f"{page.name} has no such heading"


def _wrong_command(span: str) -> str:
    """What is wrong with a span that is a target of make, a command of ours or a flag; "" for every other span."""
    words = span.split()
    match words:
        case ["make", target, *_] if re.fullmatch(r"[a-z-]+", target):
            return "" if re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE) else "no such target"
        case ["registry", command, *_] if re.fullmatch(r"[a-z-]+", command):
            return _wrong_subcommand(words[1:])
        case [flag, *_] if re.fullmatch(r"--[a-z][a-z-]*(=.*)?", flag):
            return "" if flag.partition("=")[0] in _flags() | FLAGS_OF_KUBECTL else "no such flag"
    return ""


def _wrong_subcommand(words: list[str]) -> str:
    at = _parser()
    for word in words:
        choices = next((a.choices for a in at._actions if isinstance(a, argparse._SubParsersAction)), None)
        if not choices or not re.fullmatch(r"[a-z-]+", word):
            return ""
        if word not in choices:
            return f"`{at.prog}` has no such command"
        at = choices[word]
    return ""


@cache
def _parser() -> argparse.ArgumentParser:
    return parser()


def _exists(path: str) -> bool:
    return any(glob(path, root_dir=ROOT))


def _is_module(name: str) -> bool:
    """Whether it is a module, a name in one, or the name of a logger."""
    owner, _, attribute = name.rpartition(".")
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    path = ROOT.joinpath(*owner.split("."))
    if path.is_dir() or path.with_suffix(".py").exists():
        return hasattr(importlib.import_module(owner), attribute) or f'getLogger("{name}")' in _code()
    return False


def _holds(path: str, name: str, files: Sequence[str]) -> bool:
    owners = [ROOT / file for file in files if file == path or file.endswith(f"/{path}")]
    return any(re.search(rf"\b{name}\b", owner.read_text()) for owner in owners)


def _is_metric(name: str) -> bool:
    """Counters get `_total` from the client library where their name does not end so."""
    return any(f'"{form}"' in _code() for form in (name, name.removesuffix("_total")))


@cache
def _ends(files: tuple[str, ...]) -> frozenset[str]:
    """What files may be called: registry/store/tables.py, store/tables.py, tables.py."""
    parts = [file.split("/") for file in files if file.endswith(".py")]
    return frozenset("/".join(part[start:]) for part in parts for start in range(len(part)))


@cache
def _code() -> str:
    return "\n".join(path.read_text() for top in CODE for path in (ROOT / top).rglob("*.py"))


@cache
def _variables() -> frozenset[str]:
    return frozenset(declaration.variable for declaration in declarations())


@cache
def _flags() -> frozenset[str]:
    settings = {declaration.flag for declaration in declarations()}
    code = "\n".join([_code(), *(path.read_text() for path in (ROOT / "tests").rglob("__main__.py"))])
    return frozenset(settings | {f"--no-{flag[2:]}" for flag in settings} | set(re.findall(r'"(--[a-z-]+)"', code)))
