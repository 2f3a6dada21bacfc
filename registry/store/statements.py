"""How SQL is written in the store: each statement has a name and a sentence on what it does and which index serves it.

The statements stand in the modules that run them. The name is put in front of the text as a comment, so it is seen in
pg_stat_activity and in PostgreSQL's log. Texts are LiteralString: what a user sends cannot become a part of one.
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
