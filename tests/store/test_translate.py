"""Every driver error is translated to a store error."""

from __future__ import annotations

import psycopg
import pytest

from registry.store.errors import Unavailable, Unstorable, ValueRefused
from registry.store.translate import translate

TRANSIENT = {
    "08006": "connection lost",
    "25006": "read-only",
    "40001": "serialization",
    "40P01": "deadlock",
    "53100": "disk full",
    "53300": "too many connections",
    "55P03": "lock timeout",
    "57014": "statement timeout",
    "57P01": "shutdown",
    "57P03": "starting up",
    "58030": "input/output error",
    "XX001": "data corrupted",
}
LASTING = {"23505": "unique", "42P01": "no table"}
VALUES = {"22P05": "character", "22003": "numeric range", "54000": "limit"}


@pytest.mark.parametrize("state", TRANSIENT, ids=TRANSIENT.get)
def test_temporary_errors(state: str) -> None:
    assert type(translate(psycopg.errors.lookup(state)("text"))) is Unavailable


@pytest.mark.parametrize("state", LASTING, ids=LASTING.get)
def test_permanent_errors(state: str) -> None:
    assert type(translate(psycopg.errors.lookup(state)("text"))) is Unstorable


@pytest.mark.parametrize("state", VALUES, ids=VALUES.get)
def test_errors_that_a_client_can_correct(state: str) -> None:
    assert type(translate(psycopg.errors.lookup(state)("text"))) is ValueRefused


@pytest.mark.parametrize("kind", [psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError])
def test_errors_of_the_client_library_are_of_the_connection(kind: type[psycopg.Error]) -> None:
    assert type(translate(kind("the connection is closed"))) is Unavailable


def test_error_texts_do_not_contain_data() -> None:
    error = psycopg.errors.CheckViolation('violates "x"\nDETAIL:  Failing row contains (secret).')
    assert "secret" not in str(translate(error))


def test_every_class_of_errors_is_mapped() -> None:
    """No SQLSTATE that psycopg knows comes out as anything else."""
    known = [c for c in vars(psycopg.errors).values() if isinstance(c, type) and issubclass(c, psycopg.Error)]
    states = [error for error in known if error.sqlstate]
    assert len(states) > 200
    assert {type(translate(error("text"))) for error in states} == {Unavailable, Unstorable, ValueRefused}
