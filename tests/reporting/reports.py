"""A database with reports, tenants, and definitions; no server: what a definition's write leads to is called."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.rows import dict_row

from registry.codec.json_encode import encode_canonical
from registry.controllers.reporting import reporting_of
from registry.reporting.report import documents_of, report_of
from registry.store.reporting.model import ReportOutcome
from registry.store.reporting.views import Reporting
from registry.store.store import Store
from registry.store.types import (
    Actor,
    Committed,
    ObjectKey,
    ResourceName,
    Tenant,
    TenantName,
    Uid,
    Write,
    WriteOperation,
)

Object = dict[str, Any]
# Takes a query and its values.
Ask = Callable[..., list[Object]]
_DEFINITIONS = ResourceName("customresourcedefinitions.apiextensions.k8s.io")


def definition(
    plural: str,
    properties: Mapping[str, Any],
    *,
    group: str = "example.com",
    scope: str = "Namespaced",
    annotations: Mapping[str, str] | None = None,
    **version: Any,
) -> Object:
    """A definition as it is stored, established, with one version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": dict(annotations or {})},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": plural.capitalize(), "singular": plural, "listKind": "List"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    **version,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": dict(properties)}},
                }
            ],
        },
        "status": {"acceptedNames": {"plural": plural}, "conditions": [{"type": "Established", "status": "True"}]},
    }


@dataclass
class Reports:
    """What tests do: define, put objects, ask as somebody."""

    store: Store
    reporting: Reporting
    url: str
    tenants: dict[str, Tenant]
    revision: int = 0

    async def tenant(self, name: str) -> Tenant:
        if name not in self.tenants:
            self.tenants[name] = await self.store.create_tenant(TenantName(name))
        return self.tenants[name]

    async def define(self, tenant: str, crd: Object, *, indexed: bool = True) -> ReportOutcome:
        self.revision += 1
        return await self.reporting.apply_report(
            await self.tenant(tenant), report_of(crd), self.revision, indexed=indexed
        )

    async def put(
        self,
        tenant: str,
        crd: Object,
        name: str,
        content: Object,
        *,
        namespace: str = "default",
        operation: WriteOperation = WriteOperation.CREATE,
        user: str = "ann",
    ) -> Committed:
        """Writes an object as the API writes it."""
        metadata = {"name": name, "namespace": namespace, "uid": f"{tenant}-{crd['metadata']['name']}-{name}"}
        metadata |= content.get("metadata") or {}
        obj = {"metadata": metadata, **{k: v for k, v in content.items() if k != "metadata"}}
        key = name if crd["spec"]["scope"] == "Cluster" else f"{namespace}/{name}"
        body = (
            encode_canonical(metadata)[1:-1]
            + "},"
            + encode_canonical({k: v for k, v in obj.items() if k != "metadata"})[1:]
        )
        document = documents_of(crd).text(obj, body)
        write = Write(
            operation,
            ResourceName(crd["metadata"]["name"]),
            ObjectKey(key),
            Actor(user, "tests", "update"),
            uid=Uid(metadata["uid"]),
            version="v1",
            body=body,
            doc=document,
        )
        return await self.store.commit(await self.tenant(tenant), write)

    async def remove(self, tenant: str, crd: Object, name: str) -> None:
        await self.store.commit(
            await self.tenant(tenant),
            Write(
                WriteOperation.DELETE,
                ResourceName(crd["metadata"]["name"]),
                ObjectKey(f"default/{name}"),
                Actor("bob", "tests", "delete"),
            ),
        )

    def ask(self, tenant: str, query: str, *values: Any) -> list[Object]:
        """As the administrator who looks at one tenant."""
        with self.asking(tenant) as ask:
            return ask(query, *values)

    @contextlib.contextmanager
    def asking(self, tenant: str) -> Iterator[Ask]:
        """The same over one connection, where there are hundreds of questions: a new one knows none of the views."""
        options = f"-c registry.tenant={tenant} -c search_path=reports"
        with psycopg.connect(self.url, options=options, autocommit=True, row_factory=dict_row) as connection:
            yield lambda query, *values: connection.execute(query.encode(), values or None).fetchall()

    def columns(self, view: str, schema: str = "reports") -> list[str]:
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(
                "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
                (f'{schema}."{view}"',),
            ).fetchall()
        return [row[0] for row in rows]


@contextlib.asynccontextmanager
async def open_reports(url: str) -> AsyncIterator[Reports]:
    """A database prepared for reports, which `register_roles` is called for."""
    store = await Store.open(url, housekeeping=False)
    try:
        made = Reports(store, reporting_of(store.reporting_pool), url, {})
        await made.reporting.prepare()
        yield made
    finally:
        await store.close()


def register_roles(roles: Callable[[str], None], url: str) -> None:
    """Gives `roles` the prefixes of the roles that reports of a database create."""
    name = urlsplit(url).path[1:]
    roles(f"{name}_re")
    roles(f"login_{name}_")
