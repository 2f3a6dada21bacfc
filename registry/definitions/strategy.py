"""The strategy of CustomResourceDefinitions: resets fields that a request cannot set, between decoding and validation.

Pure functions from definitions in the decoded form to new ones. The caller sets uid, times, managedFields and
resourceVersion, as for any resource.

Follows apiextensions-apiserver pkg/registry/customresourcedefinition/{strategy,etcd}.go and
pkg/controller/finalizer/crd_finalizer.go.
"""

from __future__ import annotations

from registry.codec.structs import structs as typed
from registry.definitions import types
from registry.definitions.conditions import is_true, with_condition
from registry.definitions.decode import Definition
from registry.definitions.defaulting import default_stored_versions, storage_version
from registry.definitions.model import Json
from registry.schema.values import same

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def prepare_for_create(crd: Json) -> Definition:
    """`crd` without the client's status and without a namespace, at generation 1."""
    meta = {k: v for k, v in (crd.get("metadata") or {}).items() if k != "namespace"}
    meta["generation"] = 1
    status = {}
    storage = storage_version(crd)
    if storage is not None:
        status["storedVersions"] = [storage]
    return {**crd, "metadata": meta, "status": status}


def prepare_for_update(new: Json, old: Json) -> Definition:
    """`new` with the status of `old`. Increments generation if the spec changed; adds a new storage version."""
    meta = {k: v for k, v in (new.get("metadata") or {}).items() if k != "namespace"}
    generation = (old.get("metadata") or {}).get("generation", 0)
    meta["generation"] = generation if same_spec(new, old) else generation + 1
    status = dict(old.get("status") or {})
    stored = list(status.get("storedVersions") or ())
    storage = storage_version(new)
    if storage is not None and storage not in stored:
        status["storedVersions"] = [*stored, storage]
    return {**new, "metadata": meta, "status": status}


def prepare_for_status_update(new: Json, old: Json) -> Definition:
    """`new` with the spec of `old`. Labels and finalizers may change, as in kube-apiserver."""
    meta = {k: v for k, v in (new.get("metadata") or {}).items() if k != "namespace"}
    meta["generation"] = (old.get("metadata") or {}).get("generation", 0)
    prepared = {**new, "metadata": meta, "spec": old.get("spec") or {}, "status": dict(new.get("status") or {})}
    default_stored_versions(prepared)
    return prepared


def same_spec(a: Json, b: Json) -> bool:
    """Whether two specs have the same encoding; null and empty lists are not distinguished."""
    return same(typed.encode(types.Spec, a.get("spec") or {}), typed.encode(types.Spec, b.get("spec") or {}))


def mark_for_deletion(crd: Json, now: str) -> Definition:
    """The definition that a DELETE writes; later ones than the first only set the grace period. `now` is in RFC 3339.

    `{"metadata": {"deletionTimestamp": now, "finalizers": [..., CLEANUP_FINALIZER]}, ...}` with Terminating=True.
    """
    meta = dict(crd.get("metadata") or {})
    if meta.get("deletionTimestamp"):
        return {**crd, "metadata": {"deletionGracePeriodSeconds": 0, **meta}}
    meta["deletionTimestamp"] = now
    finalizers = list(meta.get("finalizers") or ())
    if CLEANUP_FINALIZER not in finalizers:
        finalizers.append(CLEANUP_FINALIZER)
    meta["finalizers"] = finalizers
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    status = with_condition(crd.get("status") or {}, "Terminating", "True", "InstanceDeletionPending", message, now)
    return {**crd, "metadata": meta, "status": status}


def is_terminating(crd: Json) -> bool:
    """Whether the definition is being deleted, so that objects cannot be created."""
    return is_true(crd, "Terminating")


def awaits_cleanup(crd: Json) -> bool:
    """Whether the objects of a deleted definition still have to be deleted."""
    meta = crd.get("metadata") or {}
    return bool(meta.get("deletionTimestamp")) and CLEANUP_FINALIZER in (meta.get("finalizers") or ())


def begin_cleanup(crd: Json, now: str) -> Definition:
    """The definition to write before the objects are deleted."""
    status = with_condition(
        crd.get("status") or {},
        "Terminating",
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
        now,
    )
    return {**crd, "status": status}


def finish_cleanup(crd: Json, now: str) -> Definition:
    """The definition to write once no objects are left: without our finalizer. It is removed if that was the last."""
    reason, message = "InstanceDeletionCompleted", "removed all instances"
    if not is_true(crd, "Established"):
        reason, message = "NeverEstablished", "resource was never established"
    status = with_condition(crd.get("status") or {}, "Terminating", "False", reason, message, now)
    meta = dict(crd.get("metadata") or {})
    meta["finalizers"] = [f for f in meta.get("finalizers") or () if f != CLEANUP_FINALIZER]
    if not meta["finalizers"]:
        del meta["finalizers"]
    return {**crd, "metadata": meta, "status": status}
