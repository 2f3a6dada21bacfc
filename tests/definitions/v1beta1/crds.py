"""Definitions in the older form."""

from __future__ import annotations

from typing import Any

from registry.definitions import validation
from registry.definitions.strategy import prepare_for_create
from registry.definitions.v1beta1.conversion import canonical, decode_definition, default_definition, internal_beta
from tests.definitions.crds import GROUP, messages

Json = dict[str, Any]

COLUMN = {"name": "Size", "type": "integer", "JSONPath": ".spec.size"}
SCHEMA: Json = {"type": "object", "properties": {"spec": {"type": "object"}}}
OTHER_SCHEMA: Json = {"type": "object", "properties": {"status": {"type": "object"}}}


def beta(*, metadata: Json | None = None, **spec: Any) -> Json:
    """As a client sends it: one version by its name at the top, unless `spec` says otherwise."""
    given = {"group": GROUP, "names": {"plural": "widgets", "kind": "Widget"}, "version": "v1"} | spec
    return {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"} | (metadata or {}),
        "spec": {name: value for name, value in given.items() if value is not None},
    }


def version(name: str, *, storage: bool = False, **more: Any) -> Json:
    return {"name": name, "served": True, "storage": storage} | more


def defaulted(body: Json) -> Json:
    definition = decode_definition(body).value
    default_definition(definition)
    return definition


def stored(body: Json) -> Json:
    """The canonical form after a POST."""
    return canonical(prepare_for_create(defaulted(body)))


def errors_of(body: Json) -> list[str]:
    made = prepare_for_create(defaulted(body))
    return messages(validation.validate_create(made, demands=validation.OF_V1BETA1, spec=internal_beta(made)))


def update_errors_of(body: Json, old: Json) -> list[str]:
    """Of an update at v1beta1; `old` is one of v1beta1 too."""
    made, before = stored(body), stored(old)
    for one in (made, before):
        one["metadata"] |= {"uid": "u-1", "resourceVersion": "7", "creationTimestamp": "2024-01-01T00:00:00Z"}
    return messages(
        validation.validate_update(
            made, before, demands=validation.OF_V1BETA1, spec=internal_beta(made), old_spec=internal_beta(before)
        )
    )
