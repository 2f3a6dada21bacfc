"""The definitions in YAML agree with the structs that decode, so that nothing is stored which a schema would prune."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from registry.api.strategies import strategy_for
from registry.api.strategies.builtin import TypedStrategy
from registry.builtin import definitions
from registry.codec.structs.base import GoType
from registry.codec.structs.structs import GoSlice, Pointer, Struct
from registry.definitions.model import Definition
from registry.schema.model import Structural

TYPED = [d for d in definitions() if isinstance(strategy_for(d, d.versions[d.storage_version]), TypedStrategy)]


def struct_of(definition: Definition) -> Struct:
    strategy = strategy_for(definition, definition.versions[definition.storage_version])
    assert isinstance(strategy, TypedStrategy)
    return strategy.struct


def paths_of_struct(struct: Struct, path: str = "") -> Iterator[str]:
    for field in struct.fields:
        if path or field.name not in ("kind", "apiVersion", "metadata"):
            yield f"{path}.{field.name}"
            inner = inner_struct(field.type)
            if inner is not None:
                yield from paths_of_struct(inner, f"{path}.{field.name}")


def inner_struct(type_: GoType) -> Struct | None:
    while isinstance(type_, Pointer | GoSlice):
        type_ = type_.element
    return type_ if isinstance(type_, Struct) else None


def paths_of_schema(schema: Structural, path: str = "") -> Iterator[str]:
    for name, member in schema.properties.items():
        yield f"{path}.{name}"
        yield from paths_of_schema(member.items if member.items is not None else member, f"{path}.{name}")


@pytest.mark.parametrize("definition", TYPED, ids=lambda d: d.name)
def test_schema_and_struct_have_the_same_fields(definition: Definition) -> None:
    schema = definition.versions[definition.storage_version].schema().structural
    assert sorted(paths_of_schema(schema)) == sorted(paths_of_struct(struct_of(definition)))


@pytest.mark.parametrize("definition", definitions(), ids=lambda d: d.name)
def test_every_definition_is_described_and_served(definition: Definition) -> None:
    assert definition.established
    assert definition.strategy
    for version in definition.versions.values():
        assert version.served
        assert version.schema().json.get("description"), "explain shows it"
        assert strategy_for(definition, version).decode({"kind": definition.names.kind}, [])["metadata"] == {} or (
            definition.names.kind == "Namespace"
        )
