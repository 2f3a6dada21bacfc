"""Finds the nodes of a schema that matter to an algorithm, so that walks over objects can skip the rest."""

from __future__ import annotations

from collections.abc import Callable

from registry.schema.model import Structural


def nodes_with(schema: Structural, wanted: Callable[[Structural], bool]) -> frozenset[Structural]:
    """The nodes that satisfy `wanted`, and their ancestors through properties, items and map values.

    A Structural is compared by identity, so it can be kept in a set.
    """
    nodes: set[Structural] = set()
    _collect(schema, wanted, nodes)
    return frozenset(nodes)


def _collect(schema: Structural, wanted: Callable[[Structural], bool], nodes: set[Structural]) -> bool:
    here = wanted(schema)
    for inner in schema.properties.values():
        here = _collect(inner, wanted, nodes) or here
    if schema.items is not None:
        here = _collect(schema.items, wanted, nodes) or here
    if isinstance(schema.additional_properties, Structural):
        here = _collect(schema.additional_properties, wanted, nodes) or here
    if here:
        nodes.add(schema)
    return here
