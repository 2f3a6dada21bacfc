"""Random structural schemas and random values: what must hold for all of them."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.codec.structs.base import StructDecodeError
from registry.schema.compiled import CompiledSchema, compile_schema
from registry.schema.defaulting import drop_nulls
from registry.schema.fast_prune import compile_fast_prune
from registry.schema.fast_validate import compile_fast_validate
from registry.schema.field import FieldError
from registry.schema.listtypes import ListTypes
from registry.schema.pruning import prune
from registry.schema.validation import validate
from registry.schema.values import deep_copy, same

pytestmark = pytest.mark.slow  # making random schemas takes its time

NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.one_of(st.sampled_from(["", "a", "b", "abc", "10.0.0.1", "2024-01-02"]), st.text(max_size=4))
NUMBERS = st.one_of(
    st.integers(-5, 5), st.integers(-1 << 63, (1 << 63) - 1), st.sampled_from([0.5, 1.0, -2.0, 2.5, 1e20])
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


SIZES = st.integers(0, 3)
STRING_RULES = some(
    minLength=SIZES,
    maxLength=SIZES,
    pattern=st.sampled_from(["^a", "b$", "^$", "[0-9]"]),
    format=st.sampled_from(["ipv4", "date", "unknown", "int32"]),
    enum=st.lists(TEXTS, min_size=1, max_size=3),
)
NUMBER_RULES = some(
    minimum=st.sampled_from([-2, 0, 0.5, 3]),
    maximum=st.sampled_from([0, 1.5, 3, 10]),
    exclusiveMinimum=st.booleans(),
    exclusiveMaximum=st.booleans(),
    multipleOf=st.sampled_from([1, 2, 0.5]),
    format=st.sampled_from(["int32", "int64", "float", "double", "ipv4"]),
    enum=st.lists(NUMBERS, min_size=1, max_size=3),
)
LIST_RULES = some(minItems=SIZES, maxItems=SIZES)
OBJECT_RULES = some(minProperties=SIZES, maxProperties=SIZES, required=st.lists(NAMES, max_size=2, unique=True))


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(*parts).map(lambda found: {key: value for part in found for key, value in part.items()})


def branches(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    return some(anyOf=several, oneOf=several, allOf=several, **{"not": inner})


NESTED = st.recursive(
    st.one_of(STRING_RULES, NUMBER_RULES, LIST_RULES, OBJECT_RULES),
    lambda inner: merged(
        OBJECT_RULES, branches(inner), some(properties=st.dictionaries(NAMES, inner, max_size=2), items=inner)
    ),
    max_leaves=4,
)
GENERAL = some(nullable=st.booleans(), **{"x-kubernetes-preserve-unknown-fields": st.just(True)})


def typed(
    kind: str, rules: st.SearchStrategy[dict[str, Any]], default: st.SearchStrategy[Any]
) -> st.SearchStrategy[dict[str, Any]]:
    return merged(
        st.just({"type": kind}), rules, GENERAL, some(default=default), st.one_of(st.just({}), branches(NESTED))
    )


LEAVES = st.one_of(
    typed("string", STRING_RULES, TEXTS),
    typed("integer", NUMBER_RULES, st.integers(0, 3)),
    typed("number", NUMBER_RULES, NUMBERS),
    typed("boolean", st.just({}), st.booleans()),
    merged(st.just({"x-kubernetes-int-or-string": True}), STRING_RULES, NUMBER_RULES),
    GENERAL,
)


def containers(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(NAMES, inner, max_size=4)
    return st.one_of(
        merged(typed("object", OBJECT_RULES, st.just({})), st.fixed_dictionaries({"properties": properties})),
        merged(
            typed("object", OBJECT_RULES, st.just({})),
            st.fixed_dictionaries({"additionalProperties": inner | st.booleans()}),
        ),
        merged(
            typed("array", LIST_RULES, st.just([])),
            st.fixed_dictionaries({"items": inner}),
            some(
                **{
                    "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
                    "x-kubernetes-list-map-keys": st.sampled_from([["a"], ["a", "b"]]),
                }
            ),
        ),
    )


FIELDS = st.recursive(LEAVES, containers, max_leaves=8)
SCHEMAS = st.dictionaries(NAMES, FIELDS, min_size=1, max_size=4).map(
    lambda found: {"type": "object", "properties": found}
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def instance_of(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """A value that mostly has the types that the schema asks for, so that the checks below are reached."""
    if schema.get("enum"):
        return st.sampled_from(schema["enum"]) | SCALARS
    by_type: dict[str, Callable[[], st.SearchStrategy[Any]]] = {
        "string": lambda: TEXTS,
        "integer": lambda: st.integers(-5, 5),
        "number": lambda: NUMBERS,
        "boolean": st.booleans,
        "array": lambda: st.lists(instance_of(schema["items"]), max_size=3),
        "object": lambda: st.fixed_dictionaries(
            {}, optional={name: instance_of(inner) for name, inner in schema.get("properties", {}).items()}
        ),
    }
    if isinstance(schema.get("additionalProperties"), dict):
        return st.dictionaries(NAMES, instance_of(schema["additionalProperties"]), max_size=3)
    made = by_type.get(schema.get("type", ""))
    return made() | VALUES if made is not None and schema.get("type") != "object" else made() if made else VALUES


SCHEMA_AND_OBJECT = SCHEMAS.flatmap(lambda schema: st.tuples(st.just(schema), instance_of(schema) | OBJECTS))
THOROUGH = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def texts(errors: list[FieldError]) -> list[str]:
    return [error.message() for error in errors]


@THOROUGH
@given(SCHEMA_AND_OBJECT)
def test_fast_and_full_validation_agree(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    compiled = CompiledSchema(schema, 0)
    structural = compiled.structural
    errors = validate(structural, value)
    assert compile_fast_validate(structural)(value) is (not errors)
    assert texts(compiled.validate_values(value)) == texts(errors)
    lists = ListTypes(structural)
    assert lists.is_valid(value) is (not lists.validate(value))


@THOROUGH
@given(SCHEMA_AND_OBJECT)
def test_fast_prune_accepts_only_values_that_pruning_keeps(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    structural = CompiledSchema(schema, 0).structural
    after = deep_copy(value)
    unknown: list[str] = []
    prune(after, structural, is_root=True, unknown=unknown)
    drop_nulls(after, structural, only_valid=False)
    if compile_fast_prune(structural, is_root=True)(value):
        assert same(after, value)
        assert unknown == []
    assert compile_fast_prune(structural, is_root=True)(after) or any(
        isinstance(inner, list | dict) for inner in after.values()
    ), "a flat result is tidy"


@THOROUGH
@given(SCHEMA_AND_OBJECT)
def test_processing_is_idempotent(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    compiled = compile_schema(schema)
    once = deep_copy(value)
    compiled.process(once, [])
    twice = deep_copy(once)
    unknown: list[str] = []
    compiled.process(twice, unknown)
    assert same(twice, once)
    assert unknown == []
    compiled.prune_and_default(twice)
    assert same(twice, once)


@THOROUGH
@given(SCHEMA_AND_OBJECT)
def test_errors_survive_json(pair: tuple[dict[str, Any], Any]) -> None:
    schema, value = pair
    again = CompiledSchema(json.loads(json.dumps(schema)), 0)
    assert texts(again.validate(json.loads(json.dumps(value)))) == texts(CompiledSchema(schema, 0).validate(value))


@THOROUGH
@given(SCHEMA_AND_OBJECT, OBJECTS)
def test_an_update_has_no_more_errors_than_a_new_object(pair: tuple[dict[str, Any], Any], old: dict[str, Any]) -> None:
    schema, value = pair
    compiled = CompiledSchema(schema, 0)
    fresh = texts(compiled.validate(value))
    assert set(texts(compiled.validate_update(value, old))) <= set(fresh)
    if not may_have_unknown_fields(compiled, value):
        assert compiled.validate_values(value, deep_copy(value)) == []


@THOROUGH
@given(SCHEMA_AND_OBJECT, st.data())
def test_parts_that_an_update_shares_with_the_old_object_change_nothing(
    pair: tuple[dict[str, Any], Any], data: st.DataObject
) -> None:
    """As after a patch: an unchanged part is the same object."""
    schema, old = pair
    compiled = compile_schema(schema)
    compiled.process(old, [])
    new = dict(old)
    for name in data.draw(st.lists(st.sampled_from([*old, "more"]), max_size=2)):
        new[name] = data.draw(st.none() | st.integers() | st.just({}) | st.just(["x", "x"]) | CHANGED)
        if isinstance(old.get(name), dict) and isinstance(new[name], dict):
            new[name] = {**old[name], **new[name]}
    apart, unknown, unknown_apart = deep_copy(new), list[str](), list[str]()
    compiled.process(apart, unknown_apart)
    compiled.process(new, unknown, old=old)
    assert same(new, apart)
    assert unknown == unknown_apart
    assert texts(compiled.validate_update(new, old)) == texts(compiled.validate_update(apart, old))


CHANGED: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    NAMES, st.none() | st.integers() | st.just([]) | st.just({"a": None}), max_size=2
)


def may_have_unknown_fields(compiled: CompiledSchema, value: dict[str, Any]) -> bool:
    """Whether there may be fields that the schema does not name: such objects never count as unchanged."""
    unknown: list[str] = []
    prune(deep_copy(value), compiled.structural, is_root=False, unknown=unknown)
    text = json.dumps(compiled.json)
    return bool(unknown) or "preserve-unknown" in text or "additionalProperties" in text


@THOROUGH
@given(SCHEMAS, OBJECTS)
def test_arbitrary_objects_never_raise(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    compiled = CompiledSchema(schema, 0)
    with contextlib.suppress(StructDecodeError):
        compiled.process(obj, [])
    for error in compiled.validate(obj):
        assert error.message()
