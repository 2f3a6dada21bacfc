"""Statements of the store: each has a name and a sentence on what it does and which index it uses.

They are defined in the modules that run them. The name is prepended as a comment, so that it appears in
pg_stat_activity and in PostgreSQL's log. Texts are LiteralString: user input cannot become part of one.

PostgreSQL keeps the plan of a prepared statement, and of one in a function (sql/), until its tables are analyzed
again. If they were empty when it was made, reading a whole index, or another one than that which is meant, seemed as
cheap as a lookup, and it goes on when they have grown. So statements are written such that lookups are their only plan
(tests/store/test_plans.py):

- Sessions do without sequential scans (session.py).
- Joins compare the first column of an index with an array, `o.tenant_id = ANY (ARRAY[w.tenant_id])`: that is no
  equality, for which the planner would read the index in its order, as if for a merge join. Or what is joined is a
  subquery, `CROSS JOIN LATERAL (SELECT ... OFFSET 0)`, which is planned on its own, with all its conditions.
- `+ 0` and `|| ''` keep a column from an index that is not meant, and so does the comparison of rows:
  `(c.domain_id, c.revision) > (..)`.
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
