"""The fixtures of the API's tests: an application in this process, with its controllers running."""

from __future__ import annotations

import pytest

from registry.controllers.garbage import deletion as garbage
from tests.api.conftest import api, api_database, api_template, app

__all__ = ["api", "api_database", "api_template", "app", "collected_at_once"]


@pytest.fixture(autouse=True)
def collected_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions of tests are new, and their objects are to be collected all the same."""
    monkeypatch.setattr(garbage, "KNOWN_AFTER_SECONDS", 0.0)
