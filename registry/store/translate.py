"""What psycopg raises, in the store's own terms. Every error of the driver passes here; none is seen above.

class of SQLSTATE or error                                   becomes
08 connection, 57 ended or cancelled, 53 out of resources,
25 read-only, 40 deadlock, 55 lock timeout, 58/XX the
server's own faults; the client's connection errors          Unavailable: trying again can help
22 a value, 54 a limit                                       ValueRefused: it is the client's to change
anything else (23 a constraint, 42 a statement ...)          Unstorable: trying again cannot help
"""

from __future__ import annotations

from typing import Final

import psycopg

from registry.store.errors import StoreError, Unavailable, Unstorable, ValueRefused

_TRANSIENT_CLASSES: Final = frozenset({"08", "25", "40", "53", "55", "57", "58", "XX"})
_VALUE_CLASSES: Final = frozenset({"22", "54"})


def translate(error: psycopg.Error) -> StoreError:
    if is_transient(error):
        return Unavailable(first_line(error))
    refused = ValueRefused if error.sqlstate is not None and error.sqlstate[:2] in _VALUE_CLASSES else Unstorable
    return refused(first_line(error))


def is_transient(error: psycopg.Error) -> bool:
    """Whether it is the state of the server rather than what was asked of it."""
    if error.sqlstate is not None:
        return error.sqlstate[:2] in _TRANSIENT_CLASSES
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError)


def is_conflict_of_transactions(error: psycopg.Error) -> bool:
    """A deadlock or failed serialization: PostgreSQL has rolled back one of several, which may run again at once."""
    return error.sqlstate is not None and error.sqlstate.startswith("40")


def lacks_partition(error: psycopg.Error) -> bool:
    """Whether the change log has no partition for now: the SQLSTATE of check constraints, but those have a name."""
    return isinstance(error, psycopg.errors.CheckViolation) and error.diag.constraint_name is None


def first_line(error: BaseException) -> str:
    """The reason in one line; never empty. Further lines may quote rows: other people's data."""
    return str(error).partition("\n")[0] or type(error).__name__
