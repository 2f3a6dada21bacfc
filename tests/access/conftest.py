"""The fixtures of the API's tests: an application in this process."""

from __future__ import annotations

from tests.api.conftest import api, api_database, api_template, app

__all__ = ["api", "api_database", "api_template", "app"]
