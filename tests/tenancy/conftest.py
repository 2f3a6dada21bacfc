"""The applications of tests/api."""

from tests.api.conftest import api, api_database, api_template, app

__all__ = ["api", "api_database", "api_template", "app"]
