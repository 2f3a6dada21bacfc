"""The functions of the database, each in the file of its subject: commit.sql is the one way in which objects change.

There is one text of each, the current one; former.sql has what servers of the previous release call.
Tables are in tables.py, statements beside the code that runs them.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

# In this order: functions in the language SQL are checked against what they call.
_SUBJECTS: Final = "timelines in_use commit counts indexes tenancy sharing former reporting".split()
FILES: Final = tuple(f"{subject}.sql" for subject in _SUBJECTS)


def functions(schema: str) -> list[str]:
    """The texts that make or replace all functions; `schema` is the quoted name of the one in which they are made."""
    return [text_of(name, schema) for name in FILES]


def text_of(name: str, schema: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8").replace("{schema}", schema)
