"""Reads settings from flags and the environment, and passes them on: to worker processes, `--help` and a page.

A flag wins over the environment, the environment over the default; an empty environment variable counts as not set.
"""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from registry.settings.declarations import ENVIRONMENT_PREFIX, Settings, declarations
from registry.settings.values import switch


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Returns the default folder. Root's is outside its home, which PostgreSQL's account could not enter."""
    if os.geteuid() == 0:
        return Path("/var/lib/registry")
    home = environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local/share") / "registry"


# The settings of commands other than `serve`; for them the others would be flags without effect.
DATABASE: Final = ("data_dir", "database_url")
# For commands that read or write encrypted data.
ENCRYPTED_DATABASE: Final = (*DATABASE, "encryption_key_file")
# For commands that start the embedded database themselves if no server runs.
OWN_DATABASE: Final = (*DATABASE, "pg_bin", "postgres_user")
# How to reach a running server, and as which user.
ADDRESS: Final = ("host", "port", "plain_http")
CLIENT: Final = ("data_dir", *ADDRESS, "admin_token_file")


def add_flags(parser: argparse.ArgumentParser, only: Collection[str] = ()) -> None:
    """Adds a flag for each setting, or for those in `only`. Flags that are not given are absent from the result."""
    for one in declarations():
        if only and one.name not in only:
            continue
        text = f"{one.help} [{one.variable}; default: {one.shown_default}]".replace("%", "%%")
        if one.parse is switch:
            parser.add_argument(
                one.flag, dest=one.name, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text
            )
        else:
            parser.add_argument(one.flag, dest=one.name, default=argparse.SUPPRESS, metavar="VALUE", help=text)


def any_set(typed: Mapping[str, Any], environ: Mapping[str, str], *wanted: str) -> bool:
    """Returns whether one of these settings was given as a flag or in the environment."""
    return any(one.name in typed or environ.get(one.variable) for one in declarations() if one.name in wanted)


def load(typed: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Builds the settings from flags ({'port': '8443', 'plain_http': True}) and the environment."""
    values: dict[str, Any] = {}
    for one in declarations():
        if one.name in typed:
            value = typed[one.name]
            values[one.name] = one.read(value, one.flag) if isinstance(value, str) else value
        elif environ.get(one.variable):
            values[one.name] = one.read(environ[one.variable], one.variable)
    values.setdefault("data_dir", default_data_dir(environ))
    return Settings(**values)


# Variables that are not settings, so that their values are never typed on a command line (registry/http/encryption.py).
_NO_FLAGS: Final = frozenset({"ENCRYPTION_KEYS"})


def find_misspelled(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Returns variables that are not settings but resemble one, with it: `prot` for `port`, both with the prefix."""
    known = {one.variable.removeprefix(ENVIRONMENT_PREFIX) for one in declarations()}
    named = {name.removeprefix(ENVIRONMENT_PREFIX) for name in environ if name.startswith(ENVIRONMENT_PREFIX)}
    unknown = sorted(name for name in named - known - _NO_FLAGS if not name.startswith("TEST_"))
    matches = [(name, difflib.get_close_matches(name, known, 1, 0.75)) for name in unknown]
    return [(ENVIRONMENT_PREFIX + name, ENVIRONMENT_PREFIX + like[0]) for name, like in matches if like]


def to_environment(settings: Settings) -> dict[str, str]:
    """Returns the variables from which `load` builds equal settings, for worker processes."""
    out = {}
    for one in declarations():
        text = _text(getattr(settings, one.name))
        if text:
            out[one.variable] = text
    return out


def _text(value: Any) -> str:
    """Returns the text from which a setting is parsed; empty for none."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case ((_, _), *_):  # builtin_indexes
            return ";".join("=".join(pair) for pair in value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def markdown() -> str:
    """Returns the page docs/settings.md."""
    rows = [f"| `{one.flag}` | `{one.variable}` | {one.shown_default} | {one.help} |" for one in declarations()]
    return "\n".join(
        [
            "# Settings",
            "",
            "Every setting of `registry serve` is a flag and an environment variable; the flag wins. `make docs`",
            "writes this page from registry/settings/, and a test checks that it is up to date.",
            "",
            "| flag | environment variable | default | what it does |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
