"""Reconciles APIBindings: binds what is offered to the tenant, or records why not; and unbinds on deletion.

The commit that binds names the revisions of the export and of the definitions that were checked, and the guard of the
tenant's own definitions: if either side has changed meanwhile, it is re-evaluated. A tenant to which an export is not
offered gets the same answer whether or not the export, or its tenant, exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from registry.api.bound_definitions import BINDINGS, DEFINITIONS
from registry.api.catalog import TenantCatalog
from registry.api.clock import timestamp
from registry.api.decoding import metadata_of, object_of
from registry.api.errors import StatusError
from registry.api.request import CatalogStale
from registry.api.served import Object, Served
from registry.api.strategies.sharing import FINALIZER, ControllerBindingStrategy
from registry.api.verbs.driver import run
from registry.api.verbs.update import UpdateOperation, copy_of, without_finalizer
from registry.authorization.tenants import is_below
from registry.builtin.sharing import EXPORTS as EXPORTS_PLURAL
from registry.builtin.sharing import GROUP, binding_definition
from registry.builtin.tenancy import GROUP as TENANCY
from registry.builtin.tenancy import PLURAL, SYSTEM
from registry.codec.json_encode import encode_json_text
from registry.controllers.controller_client import ControllerClient
from registry.controllers.held import HeldContents, delete_objects
from registry.controllers.queue import Requeue
from registry.definitions.conditions import is_true, with_condition
from registry.definitions.naming import accept_names
from registry.store.errors import TenantNotFound
from registry.store.types import ObjectKey, ResourceName, Tenant, TenantName

EXPORTS: Final = ResourceName(f"{EXPORTS_PLURAL}.{GROUP}")
_TENANTS: Final = ResourceName(f"{PLURAL}.{TENANCY}")

_ATTEMPTS: Final = 8
_NOT_OFFERED: Final = ("NotOffered", "there is no such export, or it is not offered to this tenant")


class BindingOutcome(NamedTuple):
    """The outcome for a binding. `sharing` is None if nothing new is bound; `reason` is empty on success."""

    bound: list[str]
    reason: str
    message: str
    sharing: str | None


async def reconcile_export(client: ControllerClient, key: ObjectKey) -> None:
    """Enqueues the bindings of an export, which may have more to bind."""
    for tenant, binding in await client.backend.store.sharing.consumers(client.tenant, key):
        client.backend.enqueue(tenant, BINDINGS, binding)


async def reconcile(client: ControllerClient, key: ObjectKey, held: HeldContents) -> None:
    """Reconciles one binding. Raises Requeue while finalizers hold its objects."""
    for _ in range(_ATTEMPTS):
        row, _ = await client.backend.store.load(client.tenant, BINDINGS, key)
        if row is None:
            return
        binding = await object_of(row.body)
        catalog = await client.catalog()
        try:
            if binding["metadata"].get("deletionTimestamp"):
                await _unbind(client, catalog, key, binding, held)
            else:
                await _bind(client, catalog, key, binding)
            return
        except CatalogStale:
            continue  # the tenant's definitions have changed: check again
        except StatusError as error:
            if error.code == 404:
                return
            if error.code != 409:
                raise
    raise Requeue


# -- binding
async def _bind(client: ControllerClient, catalog: TenantCatalog, key: ObjectKey, binding: Object) -> None:
    outcome = await _check(client, catalog, binding)
    status = _status(binding, outcome)
    if status != binding.get("status"):
        await _write(client, catalog, key, lambda old: {**copy_of(old), "status": status}, outcome.sharing)


async def _check(client: ControllerClient, catalog: TenantCatalog, binding: Object) -> BindingOutcome:
    store = client.backend.store
    reference = binding["spec"]["reference"]
    already: list[str] = (binding.get("status") or {}).get("boundDefinitions") or []
    try:
        provider = await store.tenancy.reload(TenantName(reference["tenant"]))
    except TenantNotFound:
        return BindingOutcome(already, *_NOT_OFFERED, None)
    row, _ = await store.load(provider, EXPORTS, ObjectKey(reference["export"]))
    if row is None:
        return BindingOutcome(already, *_NOT_OFFERED, None)
    export = await object_of(row.body)
    is_ending = bool(export["metadata"].get("deletionTimestamp")) or provider.id == client.tenant.id
    if not already and (is_ending or not await _admits(client, provider, export)):
        return BindingOutcome(already, *_NOT_OFFERED, None)
    revisions: dict[str, int] = {}
    reason = message = ""
    for name in export["spec"]["definitions"]:
        definition, _ = await store.load(provider, DEFINITIONS, ObjectKey(name))
        obj = None if definition is None else await object_of(definition.body)
        why = "" if name in already else _why_not(catalog, name, obj)
        if why:
            reason, _, message = why.partition(": ")
        elif definition is not None:
            revisions[name] = definition.revision
    if (reason and not already) or sorted(revisions) == sorted(already):
        # At first an export is bound as a whole, or not at all.
        return BindingOutcome(already, reason, message, None)
    sharing = encode_json_text(
        {
            "kind": "binding",
            "binding": binding["metadata"]["name"],
            "provider": provider.name,
            "export": reference["export"],
            "definitions": sorted(revisions),
            "seen": [
                [EXPORTS, reference["export"], row.revision],
                *([DEFINITIONS, name, revision] for name, revision in revisions.items()),
            ],
        }
    )
    return BindingOutcome(sorted(revisions), reason, message, sharing)


async def _admits(client: ControllerClient, provider: Tenant, export: Object) -> bool:
    """Returns whether an export is offered to the tenant."""
    offered: Mapping[str, Any] = export["spec"].get("tenants") or {}
    tenant = client.tenant
    if offered.get("all") or tenant.name in (offered.get("names") or ()):
        return True
    reload = client.backend.store.tenancy.reload
    if offered.get("children") and await is_below(await reload(tenant.name), provider.name, reload):
        return True
    labels: Mapping[str, str] = (offered.get("selector") or {}).get("matchLabels") or {}
    if not labels:
        return False
    system = await client.backend.store.tenant(TenantName(SYSTEM))
    row, _ = await client.backend.store.load(system, _TENANTS, ObjectKey(tenant.name))
    has = (await metadata_of(row.body)).get("labels") or {} if row is not None else {}
    return all(has.get(label) == value for label, value in labels.items())


def _why_not(catalog: TenantCatalog, name: str, definition: Object | None) -> str:
    """Returns `<reason>: <message>` for a definition that cannot be bound, else an empty text."""
    if definition is None or not is_true(definition, "Established") or definition["metadata"].get("deletionTimestamp"):
        return f"DefinitionNotFound: the definition {name} of the export is not there, or not established"
    plural, _, group = name.partition(".")
    if name in catalog.entries or catalog.definition(group, plural) is not None:
        return f"NamingConflict: the tenant has a definition {name} already"
    names = (definition.get("status") or {}).get("acceptedNames") or {}
    crd = {"metadata": {"name": ""}, "spec": {"group": group, "names": names}, "status": {}}
    status = accept_names(crd, catalog.names_in_use(), timestamp()) or {}
    conflicts = [c for c in status.get("conditions") or () if c["type"] == "NamesAccepted" and c["status"] != "True"]
    return f"NamingConflict: {name}: {conflicts[0]['message']}" if conflicts else ""


def _status(binding: Object, outcome: BindingOutcome) -> Object:
    value, reason = ("False", outcome.reason) if outcome.reason else ("True", "Bound")
    before = {"conditions": (binding.get("status") or {}).get("conditions")}
    status = with_condition(before, "Ready", value, reason, outcome.message, timestamp())
    status = {"phase": "Bound" if outcome.bound else "Binding", **status}
    if outcome.bound:
        status["boundDefinitions"] = outcome.bound
    return status


# -- the end
async def _unbind(
    client: ControllerClient, catalog: TenantCatalog, key: ObjectKey, binding: Object, held: HeldContents
) -> None:
    """Deletes the objects of what is bound, which accepts no new ones since the deletion was marked, then unbinds."""
    if FINALIZER not in (binding["metadata"].get("finalizers") or ()):
        return
    left = 0
    for name in (binding.get("status") or {}).get("boundDefinitions") or ():
        shared = catalog.bound.get(ResourceName(name))
        if shared is None:
            continue
        served = catalog.at_storage_version(shared.definition)
        left += await delete_objects(client, served, (binding["metadata"]["uid"], served.resource_name), held)
    if left:
        raise Requeue
    catalog = await client.catalog()
    await _write(
        client, catalog, key, lambda old: {**old, "metadata": without_finalizer(old["metadata"], FINALIZER)}, None
    )


async def _write(
    client: ControllerClient,
    catalog: TenantCatalog,
    key: ObjectKey,
    make: Callable[[Object], Object],
    sharing: str | None,
) -> None:
    definition = binding_definition()
    version = definition.versions["v1"]
    served = Served(definition, version, ControllerBindingStrategy(definition, version, sharing))
    operation = UpdateOperation(lambda _, old: make(old), "update", client.manager)
    await run(client.request(catalog, served, key), operation)
