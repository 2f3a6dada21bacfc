from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from registry.definitions import packed
from registry.definitions.packed import PackedSchema, pack
from registry.schema import compiled as compiled_schemas
from registry.schema.compiled import MAX_COMPILED_BYTES, compile_schema


def schema(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string", **more}}}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(schema("a"), id="plain"),
        pytest.param(schema("ä", pattern="^\\d+$", description="‘quoted’\n"), id="other letters"),
        pytest.param(schema("n", minimum=-(2**63), maximum=1.5, enum=[None, True, 1]), id="numbers"),
        pytest.param({}, id="empty"),
    ],
)
def test_the_json_is_returned_unchanged(given: dict[str, Any]) -> None:
    assert pack(given).json == given
    assert pack(given)().json == given


def test_equal_schemas_are_stored_once() -> None:
    assert pack(schema("same")) is pack(schema("same"))
    assert pack(schema("same")).digest != pack(schema("other")).digest


def test_an_unreferenced_schema_is_freed() -> None:
    digest = pack(schema("forgotten")).digest
    gc.collect()
    assert digest not in packed._KNOWN


def test_a_packed_schema_takes_much_less_memory() -> None:
    large = {
        "type": "object",
        "properties": {
            f"field{n}": {"type": "string", "description": f"What field {n} is for, and when to leave it out."}
            for n in range(200)
        },
    }
    assert pack(large).size * 4 < len(str(large))


def test_the_oldest_compiled_schemas_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_IN_USE", packed._InUse(2 * compile_schema(schema("bounded0")).size))
    schemas = [pack(schema(f"bounded{n}")) for n in range(4)]
    for one in schemas:
        assert one().json == one.json
    assert [is_compiled(one) for one in schemas] == [False, False, True, True]
    assert schemas[0]().json == schemas[0].json
    assert [is_compiled(one) for one in schemas] == [True, False, False, True]


def is_compiled(one: PackedSchema) -> bool:
    return one._compiled is not None


def test_compiled_schemas_are_weighed() -> None:
    """A hundred of a megabyte took 3.7 GB: they were counted, as if they were small."""
    properties = {f"f{i}": {"type": "object", "properties": {"a": {"type": "integer"}}} for i in range(400)}
    document = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        compiled = compile_schema(document)
        compiled.prepare()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * compiled.size < after - before < 1.5 * compiled.size
    assert compiled_schemas._CACHE.weight <= MAX_COMPILED_BYTES
    assert compiled_schemas._CACHE.weight >= compiled.size
