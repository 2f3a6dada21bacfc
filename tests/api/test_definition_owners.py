"""The fields that the creator of a definition owns, which are computed without its schemas."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.ownership import own_create
from registry.api.served import Served
from registry.api.strategies import strategy_for
from registry.builtin import definitions
from tests.definitions.crds import crd, version

DEFINITION = next(one for one in definitions() if one.names.plural == "customresourcedefinitions")
NOW = "2026-01-31T12:00:00Z"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "enum": []}}}


@pytest.mark.parametrize("written_at", DEFINITION.versions)
@pytest.mark.parametrize(
    "body",
    [
        crd(SCHEMA),
        crd(versions=[version("v1", SCHEMA), version("v2", SCHEMA, storage=False, subresources={"status": {}})]),
        crd(versions=[{"name": "v1", "served": True, "storage": True}]),
        crd(versions=[]),
        crd(versions=None, validation={"openAPIV3Schema": SCHEMA}, version="v1"),
    ],
    ids=["one", "two", "without-schema", "empty", "none"],
)
def test_the_owned_fields_are_those_of_the_whole_definition(written_at: str, body: dict[str, Any]) -> None:
    found = DEFINITION.versions[written_at]
    strategy = strategy_for(DEFINITION, found)
    served = Served(DEFINITION, found, strategy)
    obj = strategy.decode({**body, "apiVersion": served.api_version}, [])
    whole = own_create(served, strategy.as_written(obj), "m", NOW)["metadata"]["managedFields"]
    assert own_create(served, strategy.as_created(obj), "m", NOW)["metadata"]["managedFields"] == whole
