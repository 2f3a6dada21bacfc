"""The defaults of every namespace: the service account `default` and this server's CA certificates; and in kube-system
what the servers of APIServices use to authenticate requests.

All are recreated when deleted, and changes to the data of the config maps are reverted.

Follows kubernetes pkg/controller/serviceaccount/serviceaccounts_controller.go and
pkg/controller/certificates/rootcacertpublisher/publisher.go.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from registry.aggregation.front_proxy import FrontProxy
from registry.api.admission.namespace_lifecycle import NAMESPACES
from registry.api.decoding import metadata_of, object_of
from registry.api.errors import StatusError
from registry.api.served import Object
from registry.api.verbs.update import copy_of
from registry.authentication.user import SERVER_MANAGER
from registry.controllers.controller_client import CONTROLLER_MANAGER, ControllerClient
from registry.store.types import ObjectKey, ResourceName, Row, TenantId
from registry.tasks import gather_all

SERVICE_ACCOUNTS: Final = ResourceName("serviceaccounts")
CONFIG_MAPS: Final = ResourceName("configmaps")
SERVICE_ACCOUNT: Final = "default"
CONFIG_MAP: Final = "kube-root-ca.crt"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal "
    "endpoints such as the internal service IP or kubernetes.default.svc. No other usage is "
    "guaranteed across distributions of Kubernetes clusters."
)
SYSTEM_NAMESPACE: Final = "kube-system"
AUTHENTICATION_CONFIG_MAP: Final = "extension-apiserver-authentication"
_PROXY_CA: Final = "requestheader-client-ca-file"
_NAMES: Final = {SERVICE_ACCOUNTS: SERVICE_ACCOUNT, CONFIG_MAPS: CONFIG_MAP}


def namespace_to_complete(resource: ResourceName, key: ObjectKey) -> ObjectKey | None:
    """Returns the namespace to complete after this object was written; None if it is not one of the defaults."""
    if resource == NAMESPACES:
        return key
    namespace, _, name = key.rpartition("/")
    is_ours = _NAMES.get(resource) == name or (resource == CONFIG_MAPS and name == AUTHENTICATION_CONFIG_MAP)
    return ObjectKey(namespace) if is_ours else None


@dataclass(frozen=True, slots=True)
class Trust:
    """What clients and servers in a namespace trust: this server's certificates in PEM, `client_ca` those of its
    clients, and the front proxy."""

    root_ca: str = ""
    client_ca: str = ""
    front_proxy: FrontProxy | None = None


async def ensure_defaults(client: ControllerClient, key: ObjectKey, trust: Trust) -> None:
    """Creates what is missing in one namespace, unless it is terminating."""
    client = client.with_manager(CONTROLLER_MANAGER)
    names = [(SERVICE_ACCOUNTS, SERVICE_ACCOUNT), (CONFIG_MAPS, CONFIG_MAP)]
    proxy = trust.front_proxy if key == SYSTEM_NAMESPACE else None
    if proxy is not None:
        names.append((CONFIG_MAPS, AUTHENTICATION_CONFIG_MAP))
    # All are read by one statement, and written by one commit.
    namespace, account, certificates, *authentication = await asyncio.gather(
        _load(client, NAMESPACES, key), *(_load(client, resource, f"{key}/{name}") for resource, name in names)
    )
    if namespace is None or (await metadata_of(namespace.body)).get("deletionTimestamp"):
        return
    data = {"ca.crt": trust.root_ca}
    annotations = {"kubernetes.io/description": _DESCRIPTION}
    writes = [
        _ensure(client, key, account, _object("ServiceAccount", SERVICE_ACCOUNT)),
        _ensure(client, key, certificates, _config_map(CONFIG_MAP, data, annotations=annotations)),
    ]
    if proxy is not None:
        (row,) = authentication
        data = _authentication(proxy, client.tenant.id, trust.client_ca, await _decoded(row))
        server = client.with_manager(SERVER_MANAGER)
        writes.append(_ensure(server, key, row, _config_map(AUTHENTICATION_CONFIG_MAP, data)))
    await gather_all(writes)


def _authentication(proxy: FrontProxy, tenant: TenantId, client_ca: str, stored: Object) -> dict[str, str]:
    """Returns the data of the config map from which the servers of APIServices configure their authentication. A CA
    that verifies this server's certificate is kept.

    Follows kubernetes pkg/controlplane/controller/clusterauthenticationtrust.
    """
    data = proxy.configuration(tenant, client_ca)
    authority = (stored.get("data") or {}).get(_PROXY_CA) or ""
    if authority and proxy.trusts(authority, tenant):
        data[_PROXY_CA] = authority
    return data


def _object(kind: str, name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


def _config_map(name: str, data: dict[str, str], **metadata: Any) -> dict[str, Any]:
    return {**_object("ConfigMap", name, **metadata), "data": data}


async def _decoded(row: Row | None) -> Object:
    return {} if row is None else await object_of(row.body)


async def _load(client: ControllerClient, resource: ResourceName, key: str) -> Row | None:
    row, _ = await client.backend.store.load(client.tenant, resource, ObjectKey(key))
    return row


async def _ensure(client: ControllerClient, namespace: ObjectKey, row: Row | None, wanted: dict[str, Any]) -> None:
    """Creates the object, unless it is in `row`, or reverts changes to its data. An immutable one is deleted: what its
    deletion triggers creates it again."""
    resource = SERVICE_ACCOUNTS if wanted["kind"] == "ServiceAccount" else CONFIG_MAPS
    if row is None:
        await _create(client, namespace, resource, wanted)
        return
    stored = await _decoded(row)
    if "data" not in wanted or stored.get("data") == wanted["data"]:
        return
    if stored.get("immutable"):
        await client.delete_row(resource, row)
    else:
        await client.change("", resource, row.key, lambda old: {**copy_of(old), "data": wanted["data"]})


async def _create(
    client: ControllerClient, namespace: ObjectKey, resource: ResourceName, wanted: dict[str, Any]
) -> None:
    try:
        await client.create("", "v1", resource, namespace, wanted)
    except StatusError as error:
        # It exists by now, the namespace is terminating, or a quota does not allow it (which is retried).
        if error.code != 409 and not _ends(error):
            raise


def _ends(error: StatusError) -> bool:
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
