"""Whether something may be created in a namespace.

Active namespaces are cached in the catalog, whose guards change whenever a namespace begins to terminate, so a create
that relied on an outdated cache fails its commit and is re-evaluated.

Follows apiserver pkg/admission/plugin/namespace/lifecycle/admission.go.
"""

from __future__ import annotations

from registry.api.decoding import metadata_of
from registry.api.errors import Qualified, StatusError, forbidden, internal_error, not_found
from registry.api.request import CatalogStale, ResourceRequest
from registry.codec.go_text import go_quote
from registry.schema.names import name_is_path_segment
from registry.store.types import Guards, ObjectKey, ResourceName

NAMESPACES = ResourceName("namespaces")
_RESOURCE = Qualified("namespaces")


async def require_active_namespace(request: ResourceRequest, name: str) -> None:
    """Raises 404 if the namespace in which `name` is to be created is missing, 403 if it is being deleted."""
    namespace = request.namespace
    if not request.served.namespaced or not namespace or namespace in request.catalog.active_namespaces:
        return
    row, state = await request.backend.store.load(request.tenant, NAMESPACES, ObjectKey(namespace))
    if state.guards != request.catalog.guards:
        raise CatalogStale(state.guards)
    if row is None:
        if problems := name_is_path_segment(namespace):  # kube-apiserver's client refuses to read it
            raise internal_error(f"invalid resource name {go_quote(namespace)}: [{' '.join(problems)}]")
        raise not_found(_RESOURCE, namespace)
    # Checks the text first: namespaces that are not terminating need not be decoded.
    if '"deletionTimestamp"' in row.body and (await metadata_of(row.body)).get("deletionTimestamp"):
        raise terminating(request, name)
    request.catalog.remember_namespace(namespace)


async def require_namespace(request: ResourceRequest, guards: Guards) -> None:
    """Raises 404 if the namespace of an object to be changed is gone: it may have been finalized by hand.

    `guards` are those that the object was read under.
    """
    namespace, catalog = request.namespace, request.catalog
    if not request.served.namespaced:
        return
    if namespace in catalog.active_namespaces and guards.namespaces == catalog.guards.namespaces:
        return
    row, state = await request.backend.store.load(request.tenant, NAMESPACES, ObjectKey(namespace))
    if row is None:
        raise not_found(_RESOURCE, namespace)
    if state.guards == catalog.guards and '"deletionTimestamp"' not in row.body:
        catalog.remember_namespace(namespace)


def terminating(request: ResourceRequest, name: str) -> StatusError:
    namespace = request.namespace
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    message = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(request.served.resource, name, message, [cause])
