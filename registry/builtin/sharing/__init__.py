"""APIExport and APIBinding, by which tenants share definitions: like custom resources except for their strategies.

Every tenant serves them.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

from registry.codec.packaged_yaml import load_file
from registry.definitions.compiled import compile_definition
from registry.definitions.model import Definition

GROUP: Final = "apis.registry"
EXPORTS: Final = "apiexports"
BINDINGS: Final = "apibindings"


@cache
def export_definition() -> Definition:
    return _definition("exports.yaml")


@cache
def binding_definition() -> Definition:
    return _definition("bindings.yaml")


def _definition(file: str) -> Definition:
    spec = load_file(resources.files("registry.builtin").joinpath("sharing", file))
    status = {
        "acceptedNames": spec["names"],
        "conditions": [{"type": "Established", "status": "True"}],
        "storedVersions": ["v1"],
    }
    name = f"{spec['names']['plural']}.{GROUP}"
    return compile_definition({"metadata": {"name": name}, "spec": spec, "status": status})
