from tests.api.conftest import api_database, api_template

__all__ = ["api_database", "api_template"]
