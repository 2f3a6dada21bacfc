"""Statements of the store: each has a name and a sentence on what it does and which index it uses.

They are defined in the modules that run them. The name is prepended as a comment, so that it appears in
pg_stat_activity and in PostgreSQL's log. Texts are LiteralString: user input cannot become part of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString


@dataclass(frozen=True, slots=True)
class Statement:
    name: LiteralString
    about: LiteralString
    sql: LiteralString


def statement(name: LiteralString, about: LiteralString, text: LiteralString) -> Statement:
    return Statement(name, about, "/* registry:" + name + " */ " + text)
