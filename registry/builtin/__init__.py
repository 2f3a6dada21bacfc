"""The built-in resources of every tenant, as definitions served by the same code as custom resources.

Each YAML file in this package has a definition as the spec of a CustomResourceDefinition, with three more fields:
`strategy` names the strategy of the kind (registry/api/strategies), `verbs` its verbs if not all, and `since` the
Kubernetes version that introduced a version of the kind. Kinds that have parts in common share a file: `definitions` is
the list of them, and the parts are YAML anchors. They are loaded once for each emulated version of Kubernetes, and
shared by all tenants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from registry.codec.packaged_yaml import load_file
from registry.definitions.compiled import compile_definition
from registry.definitions.defaulting import default_names
from registry.definitions.model import Definition
from registry.emulation import emulated


def definitions() -> Sequence[Definition]:
    """The built-in definitions of the emulated version, in the order of their files' names."""
    return _definitions(emulated().minor)


@cache
def _definitions(minor: int) -> Sequence[Definition]:
    files = sorted((f for f in resources.files(__name__).iterdir() if f.name.endswith(".yaml")), key=lambda f: f.name)
    definitions = []
    for file in files:
        content = load_file(file)
        for document in content.get("definitions", [content]):
            document["versions"] = [v for v in document["versions"] if _is_there(v, minor)]
            definitions.append(_definition(document))
    return definitions


def _is_there(version: dict[str, Any], minor: int) -> bool:
    """Whether Kubernetes 1.`minor` has a version of a kind; removes its field `since`."""
    since = str(version.pop("since", "1.0"))
    return int(since.partition(".")[2]) <= minor


@cache
def token_request_definition() -> Definition:
    """The kind of requests to serviceaccounts/token, which has no resource of its own."""
    return _definition(load_file(resources.files(__name__) / "subresources" / "tokenrequests.yaml"))


def served_definitions(*, v1beta1: bool) -> Sequence[Definition]:
    """The built-in definitions; CustomResourceDefinition has its v1beta1 form only if requested."""
    if v1beta1:
        return definitions()
    return [_as_stored_only(d) if d.strategy == "definition" else d for d in definitions()]


def _as_stored_only(definition: Definition) -> Definition:
    return replace(definition, versions={n: v for n, v in definition.versions.items() if v.storage})


def packaged_definition(*file: str) -> Definition:
    """Returns the definition in a file, such as "system", "tenants.yaml", of a kind that only some tenants have."""
    return _established(load_file(resources.files(__name__).joinpath(*file)))


def _definition(document: dict[str, Any]) -> Definition:
    strategy, verbs = document.pop("strategy"), document.pop("verbs", None)
    default_names(document["names"])
    return replace(_established(document), strategy=strategy, verbs=tuple(verbs) if verbs else None)


def _established(spec: dict[str, Any]) -> Definition:
    """Compiles a spec as if it were a definition whose names have been accepted."""
    status = {
        "acceptedNames": spec["names"],
        "conditions": [{"type": "Established", "status": "True"}],
        "storedVersions": ["v1"],
    }
    name = f"{spec['names']['plural']}.{spec['group']}"
    return compile_definition({"metadata": {"name": name}, "spec": spec, "status": status})
