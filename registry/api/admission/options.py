"""The options of a request as reviews and expressions see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.api.options import DeleteOptions, WriteOptions

Options = Mapping[str, Any]


def write_options_json(kind: str, options: WriteOptions) -> Options:
    """Returns the options of a create or update in the form of reviews."""
    document: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        document["dryRun"] = ["All"]
    if options.field_manager:
        document["fieldManager"] = options.field_manager
    if options.field_validation:
        document["fieldValidation"] = options.field_validation
    return document


def delete_options_json(options: DeleteOptions) -> Options:
    document: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    if options.grace_period_seconds is not None:
        document["gracePeriodSeconds"] = options.grace_period_seconds
    if (wanted := options.preconditions) is not None:
        conditions = {"uid": wanted.uid, "resourceVersion": wanted.resource_version}
        document["preconditions"] = {name: value for name, value in conditions.items() if value is not None}
    if options.orphan_dependents is not None:
        document["orphanDependents"] = options.orphan_dependents
    if options.propagation_policy is not None:
        document["propagationPolicy"] = options.propagation_policy
    if options.dry_run:
        document["dryRun"] = ["All"]
    return document
