"""Definitions of real projects are accepted, and objects made from their schemas pass them.

The files are not ours to commit: they are read from a folder beside the checkout, or from REGISTRY_REAL_DEFINITIONS,
and the tests skip where there is none.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pytest

from registry.definitions.compiled import compile_definition
from registry.definitions.decode import canonical, decode_definition
from registry.definitions.defaulting import default_definition
from registry.definitions.strategy import prepare_for_create
from registry.definitions.validation import validate_create
from tests import fast_yaml
from tests.definitions.instances import instance
from tests.definitions.real import FOLDER


def _documents() -> list[Any]:
    files = sorted(FOLDER.glob("**/*.[yj]*")) if FOLDER.is_dir() else []
    return [pytest.param(file, id=f"{file.parent.name}/{file.stem}") for file in files] or [
        pytest.param(None, marks=pytest.mark.skip(reason=f"no definitions in {FOLDER}"), id="none")
    ]


def _prepared(file: Path) -> dict[str, Any]:
    decoded = decode_definition(fast_yaml.load(file.read_text()))
    assert decoded.unknown == []
    definition = decoded.value
    default_definition(definition)
    return prepare_for_create(definition)


@pytest.mark.slow
@pytest.mark.parametrize("file", _documents())
def test_accepted_and_satisfiable(file: Path) -> None:
    crd = _prepared(file)
    assert [e.message() for e in validate_create(crd)] == []
    definition = compile_definition(canonical(crd))
    for version in definition.versions.values():
        _satisfied(definition.group, version, definition.names.kind)


def _satisfied(group: str, version: Any, kind: str) -> None:
    """Some of the objects that are made from the schema pass it whole, and none loses a field by pruning."""
    schema = version.schema()
    passed, errors = 0, []
    for seed in range(60):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from hypothesis, of examples outside of @given
            made = instance(schema.json, random.Random(seed), 0)
        obj = {
            "apiVersion": f"{group}/{version.name}",
            "kind": kind,
            **{k: v for k, v in made.items() if k not in ("apiVersion", "kind")},
            "metadata": {"name": "a", "namespace": "default"},
        }
        unknown: list[str] = []
        schema.process(obj, unknown)
        assert unknown == []
        errors = schema.validate(obj)
        passed += not errors
        if passed == 3:
            return
    assert passed, [e.message() for e in errors]
