"""APIExport and APIBinding, by which tenants share definitions: like custom resources except for their strategies.

Every tenant serves them.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from registry.builtin import packaged_definition
from registry.definitions.model import Definition

GROUP: Final = "apis.registry"
EXPORTS: Final = "apiexports"
BINDINGS: Final = "apibindings"


@cache
def export_definition() -> Definition:
    return packaged_definition("sharing", "exports.yaml")


@cache
def binding_definition() -> Definition:
    return packaged_definition("sharing", "bindings.yaml")
