"""Other servers as discovery knows them."""

from __future__ import annotations

from registry.aggregation.model import APIServer, ServiceReference


def server(group: str, version: str, group_priority: int = 1000, version_priority: int = 15) -> APIServer:
    return APIServer(group, version, ServiceReference("n", "s", 443), "", False, group_priority, version_priority)
