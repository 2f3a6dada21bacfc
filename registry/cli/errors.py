"""Errors that end a command with one line."""

from __future__ import annotations


class CommandError(Exception):
    """The command cannot do what it was asked for; the text is one line for the user."""


class Refused(CommandError):
    """What a server answered, or why it was not reached. `code` is the answer's, 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def describe(problem: BaseException, *, of: object = "") -> str:
    """An error of the system without Python's words: '/a: No such file or directory'. Others are as they say.

    `of` is the file in question, for errors that name none.
    """
    if isinstance(problem, UnicodeDecodeError):
        text = "not a text in UTF-8"
    elif isinstance(problem, OSError) and problem.strerror:
        text, of = problem.strerror, problem.filename or of
    else:
        text = str(problem).strip()
    return f"{of}: {text}" if of else text


def is_unmigrated(problem: BaseException | None) -> bool:
    """Whether a database without our tables, or with those of an older version, is the cause of an error."""
    from psycopg import errors

    missing = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.UndefinedObject)
    while problem is not None:
        if isinstance(problem, missing):
            return True
        problem = problem.__cause__ or getattr(problem, "orig", None)
    return False
