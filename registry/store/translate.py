"""Translates psycopg's errors into the store's own. Every driver error passes here; none is seen above.

SQLSTATE class or error                                      becomes
08 connection, 57 ended or cancelled, 53 out of resources,
25 read-only, 40 deadlock, 55 lock timeout, 58/XX the
server's own faults; the client's connection errors          Unavailable: retrying can help
22 a value, 54 a limit                                       ValueRefused: the client must change it
anything else (23 a constraint, 42 a statement ...)          Unstorable: retrying cannot help
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
    """Returns whether the error is due to the state of the server rather than to the statement."""
    if error.sqlstate is not None:
        return error.sqlstate[:2] in _TRANSIENT_CLASSES
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError)


def is_conflict_of_transactions(error: psycopg.Error) -> bool:
    """Returns whether it is a deadlock or serialization failure: PostgreSQL rolled back one transaction, which can be
    retried at once."""
    return error.sqlstate is not None and error.sqlstate.startswith("40")


def lacks_partition(error: psycopg.Error) -> bool:
    """Returns whether the change log lacks a current partition: the SQLSTATE of a check violation, without a
    constraint."""
    return isinstance(error, psycopg.errors.CheckViolation) and error.diag.constraint_name is None


def first_line(error: BaseException) -> str:
    """Returns the reason in one line; never empty. Further lines may quote rows, that is, other tenants' data."""
    return str(error).partition("\n")[0] or type(error).__name__
