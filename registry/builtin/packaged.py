"""Definitions that are served like custom resources, except for their strategies, from files of this package."""

from __future__ import annotations

from importlib import resources

from registry.codec.packaged_yaml import load_file
from registry.definitions.compiled import compile_definition
from registry.definitions.model import Definition


def packaged_definition(group: str, *file: str) -> Definition:
    """Returns the definition, as established, whose spec is in a file, such as "system", "tenants.yaml"."""
    spec = load_file(resources.files(__package__).joinpath(*file))
    status = {
        "acceptedNames": spec["names"],
        "conditions": [{"type": "Established", "status": "True"}],
        "storedVersions": ["v1"],
    }
    name = f"{spec['names']['plural']}.{group}"
    return compile_definition({"metadata": {"name": name}, "spec": spec, "status": status})
