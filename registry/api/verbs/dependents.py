"""Objects of any kind that name an object as their owner: a parameter of get that Kubernetes lacks (right: get).

    GET .../widgets/a?dependents=true&limit=100&continue=...

Uses the index of the garbage collector. Returns only objects of kinds that the user may list in their namespace.
Documented in docs/statistics.md.
"""

from __future__ import annotations

from typing import Final

from registry.api import continuation
from registry.api.answers import DocumentAnswer
from registry.api.decoding import metadata_of
from registry.api.errors import bad_request
from registry.api.list_options import list_options
from registry.api.options import Query, is_true
from registry.api.request import ResourceRequest
from registry.api.served import Object
from registry.authorization.attributes import Attributes
from registry.definitions.model import Definition
from registry.store.types import ObjectKey, ResourceName, Row, Uid

API_VERSION: Final = "relations.registry/v1"
PARAMETER: Final = "dependents"
DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 500
# Rows that one request examines, including those that the user may not list.
MAX_EXAMINED: Final = 5_000
_SHOWN: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "ownerReferences")


def is_of(verb: str, subresource: str, query: Query) -> bool:
    return verb == "get" and not subresource and is_true(query, PARAMETER)


async def serve(request: ResourceRequest) -> DocumentAnswer:
    """Returns a DependentList, ordered by resource, namespace and name."""
    options = list_options({k: v for k, v in request.query.items() if k in ("limit", "continue")})
    limit = min(options.limit or DEFAULT_LIMIT, MAX_LIMIT)
    owner, _ = await request.load()
    after = _row_after(options.continue_) if options.continue_ else None
    entries: list[Object] = []
    allowed = _Allowed(request)
    examined, more = 0, True
    while more and len(entries) < limit and examined < MAX_EXAMINED:
        rows = await request.backend.store.lookups.owned_by(request.tenant, [owner.uid], after=after, limit=MAX_LIMIT)
        more = bool(rows)
        for row in rows:
            examined, after = examined + 1, row
            definition = await allowed.definition_of(row)
            if definition is not None:
                entries.append(await _entry(definition, row))
                if len(entries) == limit:
                    break
    metadata = {"resourceVersion": str(owner.revision)}
    if more and after is not None:
        metadata["continue"] = continuation.encode(owner.revision, f"{after.resource} {after.key}")
    return DocumentAnswer({"apiVersion": API_VERSION, "kind": "DependentList", "metadata": metadata, "items": entries})


class _Allowed:
    """Decides which dependents the user may list, once for each resource and namespace."""

    def __init__(self, request: ResourceRequest) -> None:
        self._request = request
        self._decided: dict[tuple[ResourceName, str], Definition | None] = {}

    async def definition_of(self, row: Row) -> Definition | None:
        """Returns the row's definition, or None if the row is left out.

        Rows are left out if the resource is not served, if the user may not list it, or if a namespaced owner is in
        another namespace: garbage collection ignores such references, too.
        """
        namespace = row.key.rpartition("/")[0]
        if self._request.namespace not in ("", namespace):
            return None
        place = (row.resource, namespace)
        if place not in self._decided:
            self._decided[place] = await self._decide(row.resource, namespace)
        return self._decided[place]

    async def _decide(self, resource: ResourceName, namespace: str) -> Definition | None:
        plural, _, group = resource.partition(".")
        request = self._request
        definition = request.catalog.definition(group, plural)
        if definition is None or not any(version.served for version in definition.versions.values()):
            return None
        attributes = Attributes("list", "", plural, "", group, namespace, of_resource=True)
        decision = await request.backend.authorizer.decide(request.tenant, request.context.user, attributes)
        return definition if decision.allowed else None


async def _entry(definition: Definition, row: Row) -> Object:
    """{'apiVersion': 'v1', 'kind': 'ConfigMap', 'resource': 'configmaps', 'metadata': {'name': 'a', ...}}"""
    metadata = await metadata_of(row.body)
    served = [name for name, version in definition.versions.items() if version.served]
    version = definition.storage_version if definition.storage_version in served else served[0]
    return {
        "apiVersion": f"{definition.group}/{version}" if definition.group else version,
        "kind": definition.names.kind,
        "resource": definition.names.plural,
        "metadata": {name: metadata[name] for name in _SHOWN if name in metadata},
    }


def _row_after(token: str) -> Row:
    """Returns the position of the last row of the previous page."""
    resource, separator, key = continuation.decode(token).after.partition(" ")
    if not separator:
        raise bad_request("invalid continue token: it is of another list")
    return Row(ResourceName(resource), ObjectKey(key), Uid(""), 0, "", 0, "")
