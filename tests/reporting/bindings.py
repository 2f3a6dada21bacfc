"""Bindings of definitions, as the commit of an APIBinding writes them."""

from __future__ import annotations

import psycopg

from tests.reporting.reports import Reports


def bind(reports: Reports, consumer: str, resource: str, provider: str) -> None:
    """As the commit of an APIBinding does it."""
    with psycopg.connect(reports.url) as connection:
        connection.execute(
            "INSERT INTO api_bindings (tenant_id, resource, since, provider_id, export, binding) SELECT c.id, %s,"
            " d.revision, p.id, 'e', 'b' FROM tenants c JOIN domains d ON d.id = c.domain_id, tenants p"
            " WHERE c.name = %s AND p.name = %s",
            (resource, consumer, provider),
        )


def unbind(reports: Reports, consumer: str) -> None:
    with psycopg.connect(reports.url) as connection:
        connection.execute(
            "UPDATE api_bindings b SET until = d.revision FROM tenants t JOIN domains d"
            " ON d.id = t.domain_id WHERE b.tenant_id = t.id AND t.name = %s",
            (consumer,),
        )
