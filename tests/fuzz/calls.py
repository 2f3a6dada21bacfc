"""A request as the fuzzer has it: decoded, so that it can be mutated, and encoded only when it is sent.

In a path `{tenant}` stands for the tenant of the episode, so that a finding can be replayed in another one.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import yaml

Json = Any
TENANT = "{tenant}"
PREFIX = f"/clusters/{TENANT}"
_IN_PATH = "/:@!$&'()*+,;=-._~"
_IN_QUERY = ":@!$'()*,/-._~"


@dataclass(frozen=True)
class Call:
    """`path` and `query` are decoded. `raw` goes out instead of `body` where it is set."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: Json = None
    raw: bytes | None = None

    def target(self, tenant: str) -> str:
        path = quote(self.path.replace(TENANT, tenant), safe=_IN_PATH, errors="replace")
        pairs = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in self.query)
        return f"{path}?{pairs}" if pairs else path

    def content(self) -> bytes | None:
        if self.raw is not None:
            return self.raw
        return None if self.body is None else json.dumps(self.body).encode("utf-8", "replace")

    def header(self, name: str) -> str:
        return next((value for known, value in self.headers if known.lower() == name), "")

    def with_header(self, name: str, value: str) -> Call:
        kept = tuple((known, old) for known, old in self.headers if known.lower() != name)
        return replace(self, headers=(*kept, (name, value)))

    @property
    def is_watch(self) -> bool:
        """Whether the answer may have no end: custom resources are watched at such a path whatever the method is."""
        return "/watch/" in self.path or (self.method in ("GET", "HEAD") and any(n == "watch" for n, _ in self.query))


def _quoted(text: str) -> str:
    return quote(text, safe=_IN_QUERY, errors="replace")


def parse_target(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """`/a?b=c%3Dd` as ("/a", (("b", "c=d"),))."""
    path, _, query = text.partition("?")
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return unquote(path), tuple((unquote(name), unquote(value.replace("+", " "))) for name, _, value in pairs)


# --- as YAML, for the corpus


def dumped(call: Call) -> dict[str, Json]:
    found: dict[str, Json] = {"method": call.method, "path": call.path}
    if call.query:
        found["query"] = [list(pair) for pair in call.query]
    if call.headers:
        found["headers"] = [list(pair) for pair in call.headers]
    if call.raw is not None:
        found["raw"] = base64.b64encode(call.raw).decode()
    elif call.body is not None:
        # YAML cannot hold every text that JSON can.
        found["json"] = json.dumps(call.body)
    return found


def loaded(entry: dict[str, Json]) -> Call:
    return Call(
        entry["method"],
        entry["path"],
        tuple((n, v) for n, v in entry.get("query") or ()),
        tuple((n, v) for n, v in entry.get("headers") or ()),
        json.loads(entry["json"]) if "json" in entry else None,
        base64.b64decode(entry["raw"]) if "raw" in entry else None,
    )


@dataclass(frozen=True)
class Entry:
    """A finding of the corpus: why it was one, and the requests that led to it; the last is the one that failed."""

    why: str
    calls: list[Call] = field(default_factory=list)


def read_entry(path: Path) -> Entry:
    document = yaml.safe_load(path.read_text())
    return Entry(document["why"], [loaded(entry) for entry in document["calls"]])


def write_entry(path: Path, entry: Entry) -> None:
    document = {"why": entry.why, "calls": [dumped(call) for call in entry.calls]}
    path.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=False, width=118))
