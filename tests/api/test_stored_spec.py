"""The text of a stored spec, which a write of the status takes over as it is."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.bound_definitions import DEFINITIONS
from registry.api.served import body_of, stored_spec
from registry.store.types import ObjectKey, Row, Uid

METADATA = {"name": "a", "annotations": {"b": '"spec":{},"status":', "a": "é"}, "resourceVersion": "7"}
OBJECTS: dict[str, dict[str, Any]] = {
    "with a status": {"metadata": METADATA, "spec": {"b": 1, "a": [1.5, "x"]}, "status": {"phase": "new"}},
    "without one": {"metadata": METADATA, "spec": {"b": 1}},
    "with a status in the spec": {"metadata": METADATA, "spec": {"status": {"a": 1}}, "status": {"a": 1}},
    "with other parts": {"metadata": METADATA, "data": {"spec": 1}, "spec": None, "value": 2.5},
    "an empty one": {"metadata": {"name": "a"}, "spec": {}, "status": {}},
}


def row_of(body: str) -> Row:
    return Row(DEFINITIONS, ObjectKey("a"), Uid("u"), 7, "v1", 1, body)


@pytest.mark.parametrize("obj", OBJECTS.values(), ids=OBJECTS)
def test_it_is_the_spec_of_what_is_written_with_it(obj: dict[str, Any]) -> None:
    spec = stored_spec(row_of(body_of(obj)), obj)
    assert spec is not None
    assert body_of(obj, spec) == body_of(obj)
    changed = {**obj, "metadata": {"name": "a", "labels": {"a": "b"}}, "status": {"phase": "old"}}
    assert body_of(changed, spec) == body_of(changed)


@pytest.mark.parametrize(
    "body",
    [
        '"name":"a"},"spec":{"b":1},"status":{}}',
        '"name":"b"},"spec":{}}',
        '"name":"a"},"status":{},"spec":{}}',
        '"name":',
    ],
    ids=["another status", "another name", "another order", "a part"],
)
def test_what_is_stored_otherwise_is_encoded_again(body: str) -> None:
    obj = {"metadata": {"name": "a"}, "spec": {"b": 1}, "status": {"phase": "new"}}
    assert stored_spec(row_of(body), obj) is None


def test_an_object_without_a_spec_has_none() -> None:
    obj = {"metadata": {"name": "a"}, "data": {}}
    assert stored_spec(row_of(body_of(obj)), obj) is None
