"""Garbage collection without delays."""

from __future__ import annotations

import pytest

from registry.controllers.garbage import deletion as garbage


@pytest.fixture(autouse=True)
def collected_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions of tests are new, and their objects are to be collected anyway."""
    monkeypatch.setattr(garbage, "KNOWN_AFTER_SECONDS", 0.0)
