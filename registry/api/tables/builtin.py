"""Tables of built-in kinds: what kubectl shows of config maps, namespaces, bindings and the like.

    builtin_table("", "ConfigMap").row(obj, now)["cells"]      # ["a", 2, "5d6h"]

builtin.yaml lists the columns of each kind, with the descriptions of the API's documentation; other kinds have Name and
Created At. Follows kubernetes pkg/printers/internalversion/printers.go and apiserver pkg/registry/rest/table.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from registry.api.tables.cells import cell_of
from registry.api.tables.table import CREATED_DESCRIPTION, NAME_DESCRIPTION, Table, column_definition
from registry.codec.packaged_yaml import load_file
from registry.emulation import emulated

# Columns that most tables share; one with the same name in builtin.yaml says what differs.
_SHARED: Final[Mapping[str, Mapping[str, Any]]] = {
    "Name": {"name": "Name", "cell": "name", "format": "name", "description": NAME_DESCRIPTION},
    "Age": {"name": "Age", "cell": "age", "description": CREATED_DESCRIPTION},
    "Created At": {"name": "Created At", "cell": "creation_time", "type": "date", "description": CREATED_DESCRIPTION},
}


def builtin_table(group: str, kind: str) -> Table:
    return _tables(emulated().minor).get(f"{kind}.{group}".removesuffix("."), _DEFAULT)


@cache
def _tables(minor: int) -> Mapping[str, Table]:
    """The tables of Kubernetes 1.`minor`, by kind and group: `Lease.coordination.k8s.io`."""
    tables: dict[str, Table] = {}
    for entry in load_file(resources.files(__package__).joinpath("builtin.yaml")):
        if entry.get("sinceMinor", 0) <= minor:
            tables |= dict.fromkeys(entry["kinds"], _table(entry["columns"], entry.get("emptyRows", [])))
    return tables


def _table(columns: list[Any], empty_rows: Any) -> Table:
    declared = [
        dict(_SHARED[column]) if isinstance(column, str) else {**_SHARED.get(column["name"], {}), **column}
        for column in columns
    ]
    cells = [cell_of(column.pop("cell")) for column in declared]
    return Table(
        [column_definition(**column) for column in declared],
        lambda obj, now, budget: [cell(obj, now) for cell in cells],
        empty_rows,
    )


_DEFAULT: Final = _table(["Name", "Created At"], None)
