"""The resources that a Query reads: found in the tenant's catalog, and authorized like lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from registry.aggregation.model import GROUP as API_REGISTRATION
from registry.api.automatic_api_services import ensure_api_services
from registry.api.catalog import TenantCatalog
from registry.api.default_roles import ensure_default_roles
from registry.api.errors import Qualified, forbidden, invalid
from registry.api.query.filters import hidden_paths
from registry.api.request import ResourceRequest
from registry.api.served import Served
from registry.authorization.attributes import Attributes, refusal
from registry.authorization.rbac.model import GROUP as RBAC
from registry.codec.go_text import go_quote
from registry.definitions.discovery import verbs_of
from registry.query.fields import Path, query_schema
from registry.schema.field import FieldError
from registry.schema.field import invalid as invalid_field
from registry.schema.model import Structural


@dataclass(frozen=True, slots=True)
class Target:
    """A resource at the version of the fields that are read. `namespaces` are those that are read, "" for all."""

    request: ResourceRequest
    namespaces: tuple[str, ...]
    hidden: tuple[Path, ...]

    @property
    def served(self) -> Served:
        return self.request.served

    @property
    def root(self) -> Structural:
        return query_schema(self.served.version.schema().structural)

    def within(self, namespace: str) -> ResourceRequest:
        """Returns the request for the list of one namespace."""
        return self.request._replace(namespace=namespace)

    def reads(self, namespace: str) -> bool:
        return not self.served.namespaced or self.namespaces == ("",) or namespace in self.namespaces


async def find_target(query: ResourceRequest, spec: dict[str, Any], at: str, namespaces: Sequence[str]) -> Target:
    """Returns the resource that `spec`, at the path `at` of the query, names.

    Raises 403 if the user may not list it in one of the namespaces, or in all of them; only then 422 if there is no
    such resource, so that the existence of resources is not disclosed.
    """
    group, resource = spec.get("group") or "", spec["resource"]
    catalog, version = query.catalog, spec.get("version") or ""
    served = _find(catalog, group, resource, version)
    if served is None:
        # It may have been defined since: the catalog can be old, but never ahead.
        catalog = await query.backend.catalogs.current(query.tenant)
        served = _find(catalog, group, resource, version)
    in_namespaces = served is None or served.namespaced
    within = tuple(namespaces) if in_namespaces and namespaces else ("",)
    for namespace in within:
        await _authorize(query, group, resource, namespace)
    if served is None:
        missing = f'there is no resource "{Qualified(resource, group)}"'
        missing += f" at version {go_quote(version)}" if version else ""
        raise query_error(query, invalid_field(f"{at}.resource", resource, missing))
    if "list" not in verbs_of(served.definition):
        raise query_error(query, invalid_field(f"{at}.resource", resource, "it cannot be listed"))
    if group == RBAC:
        await ensure_default_roles(query.backend, query.tenant)
    elif group == API_REGISTRATION:
        await ensure_api_services(query.backend, query.tenant)
    request = ResourceRequest(query.backend, query.context, catalog, query.converting(served), "", "", "", {})
    return Target(request, within, hidden_paths(request))


def query_error(query: ResourceRequest, *errors: FieldError) -> Exception:
    return invalid(query.served.kind, "", errors)


def _find(catalog: TenantCatalog, group: str, resource: str, version: str) -> Served | None:
    """Returns the resource at `version`, otherwise at the served version of the highest priority."""
    definition = catalog.definition(group, resource)
    if definition is None:
        return None
    names = [version] if version else [name for name, one in definition.versions.items() if one.served]
    return next((served for name in names if (served := catalog.served(group, name, resource)) is not None), None)


async def _authorize(query: ResourceRequest, group: str, resource: str, namespace: str) -> None:
    """Authorizes the read like a list of the resource. Raises 403."""
    user = query.context.user
    if user.is_administrator:
        return
    attributes = Attributes("list", "", resource=resource, group=group, namespace=namespace)
    decision = await query.backend.authorizer.decide(query.tenant, user, attributes)
    if not decision.allowed:
        raise forbidden(Qualified(resource, group), "", refusal(user, attributes, decision.reason))
