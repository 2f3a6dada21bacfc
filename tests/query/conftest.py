"""A tenant that shares its definition, as in tests/tenancy."""

from __future__ import annotations

from tests.tenancy.conftest import provider as provider
