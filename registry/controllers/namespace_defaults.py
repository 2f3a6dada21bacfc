"""The defaults of every namespace: the service account `default` and this server's CA certificates; and in kube-system
what the servers of APIServices use to authenticate requests.

All are recreated when deleted, and changes to the config map's data are reverted.

Follows kubernetes pkg/controller/serviceaccount/serviceaccounts_controller.go and
pkg/controller/certificates/rootcacertpublisher/publisher.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from registry.aggregation.front_proxy import FrontProxy
from registry.api.admission.namespace_lifecycle import NAMESPACES
from registry.api.errors import StatusError
from registry.api.verbs.update import copy_of
from registry.codec.stored import decode_metadata, decode_stored
from registry.controllers.controller_client import CONTROLLER_MANAGER, ControllerClient
from registry.store.types import ObjectKey, ResourceName

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
    row, _ = await client.backend.store.load(client.tenant, NAMESPACES, key)
    if row is None or decode_metadata(row.body).get("deletionTimestamp"):
        return
    client = client.with_manager(CONTROLLER_MANAGER)
    if key == SYSTEM_NAMESPACE and trust.front_proxy is not None:
        await _ensure_authentication(client, trust.front_proxy, trust.client_ca)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SERVICE_ACCOUNT}}
    await _ensure(client, key, SERVICE_ACCOUNTS, account)
    certificates = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"ca.crt": trust.root_ca},
        "metadata": {"name": CONFIG_MAP, "annotations": {"kubernetes.io/description": _DESCRIPTION}},
    }
    await _ensure(client, key, CONFIG_MAPS, certificates)


async def _ensure_authentication(client: ControllerClient, proxy: FrontProxy, client_ca: str) -> None:
    """Ensures the config map from which the servers of APIServices configure their authentication. A CA that verifies
    this server's certificate is kept.

    Follows kubernetes pkg/controlplane/controller/clusterauthenticationtrust.
    """
    tenant = client.tenant.id
    data = proxy.configuration(tenant, client_ca)
    key = ObjectKey(f"{SYSTEM_NAMESPACE}/{AUTHENTICATION_CONFIG_MAP}")
    row, _ = await client.backend.store.load(client.tenant, CONFIG_MAPS, key)
    if row is not None:
        authority = (decode_stored('{"metadata":{' + row.body).get("data") or {}).get(_PROXY_CA) or ""
        if proxy.trusts(authority, tenant):
            data[_PROXY_CA] = authority
    wanted = {
        "apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": AUTHENTICATION_CONFIG_MAP},
    }  # fmt: skip
    await _ensure(client, ObjectKey(SYSTEM_NAMESPACE), CONFIG_MAPS, wanted)


async def _ensure(
    client: ControllerClient, namespace: ObjectKey, resource: ResourceName, wanted: dict[str, Any]
) -> None:
    key = ObjectKey(f"{namespace}/{wanted['metadata']['name']}")
    row, _ = await client.backend.store.load(client.tenant, resource, key)
    if row is None:
        await _create(client, namespace, resource, wanted)
    elif "data" in wanted and decode_stored('{"metadata":{' + row.body).get("data") != wanted["data"]:
        await client.change("", resource, key, lambda old: {**copy_of(old), "data": wanted["data"]})


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
