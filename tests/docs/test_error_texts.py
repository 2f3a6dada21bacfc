"""Each error text of docs/troubleshooting.md is one that the server, the command line or a client prints."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text()
# Of client-go and kubectl (client-go rest/request.go and cli-runtime) and of Go's crypto/x509.
OF_CLIENTS = frozenset(
    {
        "The connection to the server localhost:8080 was refused",
        "x509: certificate signed by unknown authority",
        "x509: certificate is valid for",
        "You must be logged in to the server (Unauthorized)",
        "the server doesn't have a resource type ",
        ".status.conditions accessor error: <nil>",
        "no matches for kind ",
    }
)


def texts(heading: str) -> list[str]:
    """The first column of the table below a heading, in backticks."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


@cache
def printed() -> str:
    """All strings of the code, those parts of f-strings among them that are always the same."""
    found = []
    for path in (ROOT / "registry").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                found.append(value)
    return "\0".join(found)


@pytest.mark.parametrize("text", [*texts("What registry prints"), *texts("What kubectl prints")])
def test_the_text_is_printed(text: str) -> None:
    assert text in OF_CLIENTS or text in printed()


def test_the_page_has_entries() -> None:
    assert len(texts("What registry prints")) > 10
    assert set(texts("What kubectl prints")) > OF_CLIENTS
