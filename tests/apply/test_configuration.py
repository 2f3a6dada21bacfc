"""Apply configurations of mutating admission policies."""

from __future__ import annotations

from typing import Any

import pytest

from registry.apply.configuration import apply_configuration
from registry.apply.errors import TypedError
from tests.apply.schemas import type_of, widget


@pytest.mark.parametrize(
    "spec, configuration, expected",
    [
        pytest.param({"size": 1}, {"color": "x"}, {"size": 1, "color": "x"}, id="a field is set"),
        pytest.param({"tags": ["a"]}, {"tags": ["b"]}, {"tags": ["a", "b"]}, id="an item is added"),
        pytest.param(
            {"rooms": [{"name": "n", "area": 1}]},
            {"rooms": [{"name": "n", "area": 2}]},
            {"rooms": [{"name": "n", "area": 2}]},
            id="an item is changed",
        ),
        pytest.param(
            {"limits": {"a": "1"}}, {"limits": {"b": "2"}}, {"limits": {"a": "1", "b": "2"}}, id="a key is added"
        ),
    ],
)
def test_merged(spec: Any, configuration: Any, expected: Any) -> None:
    assert apply_configuration(type_of(), widget(spec), widget(configuration))["spec"] == expected


@pytest.mark.parametrize(
    "spec, configuration, message",
    [
        pytest.param(
            {},
            {"size": "many"},
            "failed to convert patch object to typed object: .spec.size: expected numeric (int or float), got string",
            id="a wrong type",
        ),
        pytest.param(
            {},
            {"nobody": 1},
            "failed to convert patch object to typed object: .spec.nobody: field not declared in schema",
            id="an unknown field",
        ),
        pytest.param(
            {},
            {"steps": ["a"], "stamp": {"ink": "x"}},
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.steps, .spec.stamp",
            id="atomic ones",
        ),
        pytest.param(
            {"rooms": [{"area": 1}]},
            {"rooms": []},
            "failed to convert original object to typed object: "
            ".spec.rooms: element 0: associative list with keys has an element that omits all key fields "
            '["name"] (and doesn\'t have default values for any key fields)',
            id="an original that does not fit",
        ),
    ],
)
def test_refused(spec: Any, configuration: Any, message: str) -> None:
    with pytest.raises(TypedError) as caught:
        apply_configuration(type_of(), widget(spec), widget(configuration))
    assert str(caught.value) == message


def test_an_atomic_item_of_a_list_is_refused() -> None:
    configuration = widget({})
    configuration["metadata"]["ownerReferences"] = [{"uid": "u", "name": "a"}, {"uid": "v"}]
    with pytest.raises(TypedError) as caught:
        apply_configuration(type_of(), widget({}), configuration)
    items = ".metadata.ownerReferences[0], .metadata.ownerReferences[1]"
    assert str(caught.value) == f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {items}"
