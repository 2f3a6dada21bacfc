"""Tests of a module that share a database and its stores, each with a new tenant: half of their processor time."""

from __future__ import annotations

import pytest

# Marks them.
shares_store = pytest.mark.asyncio(loop_scope="module")
# Marks those in such a module that look at what all tenants have.
has_own_store = pytest.mark.asyncio(loop_scope="function")


def is_shared(request: pytest.FixtureRequest) -> bool:
    marker = request.node.get_closest_marker("asyncio")
    return marker is not None and marker.kwargs == shares_store.kwargs
