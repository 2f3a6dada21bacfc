"""Errors that end a command with one line."""

from __future__ import annotations


class CommandError(Exception):
    """The command cannot do what was requested; the text is one line for the user."""


class RequestRefused(CommandError):
    """A server's error response, or why it was not reached. `code` is the HTTP status, 0 without a response."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def describe(problem: BaseException, *, of: object = "") -> str:
    """Describes an OS error without Python's words: '/a: No such file or directory'. Others are returned as text.

    `of` is the file in question, for errors without a file name.
    """
    if isinstance(problem, UnicodeDecodeError):
        text = "not a text in UTF-8"
    elif isinstance(problem, OSError) and problem.strerror:
        text, of = problem.strerror, problem.filename or of
    else:
        text = str(problem).strip()
    return f"{of}: {text}" if of else text


def is_unmigrated(problem: BaseException | None) -> bool:
    """Returns whether the cause of an error is a database without our tables, or with those of an older version."""
    from psycopg import errors

    missing = (errors.UndefinedTable, errors.UndefinedColumn, errors.UndefinedFunction, errors.UndefinedObject)
    while problem is not None:
        if isinstance(problem, missing):
            return True
        problem = problem.__cause__ or getattr(problem, "orig", None)
    return False
