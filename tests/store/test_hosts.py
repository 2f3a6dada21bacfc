"""Of several hosts in a DSN, the last known primary is tried first."""

from __future__ import annotations

import psycopg
import pytest

from registry.store.session import has_several_hosts, with_host_first


@pytest.mark.parametrize(
    ("dsn", "host", "port", "expected"),
    [
        pytest.param("host=a,b,c port=1,2,3", "b", 2, "host=b,a,c port=2,1,3", id="moved-to-the-front"),
        pytest.param("host=a,b port=1,2", "a", 1, "host=a,b port=1,2", id="already-first"),
        pytest.param("host=a,b", "b", 5432, "host=b,a port=5432,5432", id="without-ports"),
        pytest.param("host=a,b port=7", "b", 7, "host=b,a port=7,7", id="one-port-for-all"),
        pytest.param("host=a,a port=1,2", "a", 2, "host=a,a port=2,1", id="one-host-with-two-ports"),
        pytest.param("host=a,b port=1,2", "x", 9, "host=a,b port=1,2", id="unknown"),
        pytest.param("host=a port=1", "a", 1, "host=a port=1", id="one-host"),
        pytest.param("dbname=x", "/run", 5432, "dbname=x", id="by-socket"),
        pytest.param(
            "postgresql://u@a:1,b:2/x?target_session_attrs=read-write",
            "b",
            2,
            "user=u dbname=x host=b,a port=2,1 target_session_attrs=read-write",
            id="url",
        ),
    ],
)
def test_the_last_primary_comes_first(dsn: str, host: str, port: int, expected: str) -> None:
    to_dict = psycopg.conninfo.conninfo_to_dict
    assert to_dict(with_host_first(dsn, host, port)) == to_dict(expected)


@pytest.mark.parametrize(
    ("dsn", "expected"), [("host=a,b", True), ("postgresql://a,b/x", True), ("host=a", False), ("dbname=x", False)]
)
def test_whether_there_are_several(dsn: str, expected: bool) -> None:
    assert has_several_hosts(dsn) is expected
