"""The benchmark of storage migration, with few objects: nothing is lost, though the server is killed in the middle."""

from __future__ import annotations

import pytest

from benchmarks import migration

pytestmark = pytest.mark.slow


def test_through_a_kill() -> None:
    assert migration.main(["--objects", "600", "--migration-rate", "150", "--kill"]) == 0
