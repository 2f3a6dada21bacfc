from __future__ import annotations

from typing import Any

import pytest

from registry.schema.field_paths import SchemaPathError, resolve

SCHEMA: dict[str, Any] = {
    "properties": {
        "spec": {"properties": {"host": {"type": "string"}, "a.b": {"type": "integer"}}},
        "labels": {"additionalProperties": {"type": "boolean"}},
        "any": {"additionalProperties": True},
        "list": {"type": "array", "items": {}},
    }
}


@pytest.mark.parametrize(
    "path, found, kind",
    [
        pytest.param(".spec.host", "spec.host", "string", id="field"),
        pytest.param(".spec['a.b']", "spec.a.b", "integer", id="brackets"),
        pytest.param("['spec'].host", "spec.host", "string", id="brackets first"),
        pytest.param(".labels.x", "labels[x]", "boolean", id="value of a map"),
        pytest.param(r".labels['it\'s']", "labels[it's]", "boolean", id="escaped quote"),
        pytest.param("", "", None, id="empty"),
        pytest.param(".any.x", "any[x]", None, id="any value"),
    ],
)
def test_found(path: str, found: str, kind: str | None) -> None:
    result = resolve(path, SCHEMA)
    assert (result.path, result.schema.get("type")) == (found, kind)


@pytest.mark.parametrize(
    "path, why",
    [
        pytest.param("spec", "expected [ or . but got: spec", id="no dot"),
        pytest.param(".", "unexpected end of JSON path", id="only a dot"),
        pytest.param(".spec.", "unexpected end of JSON path", id="dot at the end"),
        pytest.param(".spec..host", "does not refer to a valid field", id="two dots"),
        pytest.param(".absent", "does not refer to a valid field", id="absent"),
        pytest.param(".list[0]", "expected single quoted string but got 0", id="index"),
        pytest.param(".list.x", "does not refer to a valid field", id="into a list"),
        pytest.param(".any.x.y", "does not refer to a valid field", id="into any value"),
        pytest.param('.spec["host"]', 'expected single quoted string but got "host"', id="double quotes"),
        pytest.param(".spec['host'", "unexpected end of JSON path", id="not closed"),
        pytest.param(".spec['host'.", "expected ] but got .", id="closed by a dot"),
        pytest.param(".labels['a\\q']", "invalid string literal: invalid escape sequence", id="escape"),
    ],
)
def test_not_found(path: str, why: str) -> None:
    with pytest.raises(SchemaPathError) as caught:
        resolve(path, SCHEMA)
    assert str(caught.value) == why


def test_no_brackets() -> None:
    with pytest.raises(SchemaPathError, match="array notation is not allowed"):
        resolve(".spec['host']", SCHEMA, brackets=False)
