"""Sending Queries over HTTP."""

from __future__ import annotations

from typing import Any

from tests.api.client import Answer, Client
from tests.api.widgets import GROUP

QUERIES = "/apis/query.registry/v1/queries"
WIDGETS_OF: dict[str, Any] = {"group": GROUP, "resource": "widgets"}


async def post(api: Client, spec: dict[str, Any], user: str = "") -> Answer:
    body = {"apiVersion": "query.registry/v1", "kind": "Query", "spec": spec}
    return await api.post(QUERIES, body, headers={"impersonate-user": user} if user else {})


async def ask(api: Client, spec: dict[str, Any], user: str = "") -> Any:
    """The status."""
    return (await post(api, spec, user)).ok(201)["status"]


def rows_of(status: Any) -> list[list[Any]]:
    """The rows as lists, in the order of the columns."""
    return [[row[column["name"]] for column in status["columns"]] for row in status["rows"]]


def widgets_in(*namespaces: str, **spec: Any) -> dict[str, Any]:
    """A question about widgets; of all namespaces without any."""
    return {**WIDGETS_OF, **({"namespaces": list(namespaces)} if namespaces else {}), **spec}


def counts(status: Any) -> Any:
    """The only value of the only row."""
    ((found,),) = rows_of(status)
    return found
