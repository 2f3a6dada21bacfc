"""What is declared is also there when a rule runs."""

from __future__ import annotations

import pytest

from registry.cel.checker.declarations import FORMATS, FUNCTIONS, IDENTS
from registry.cel.ext.table import GLOBALS, MEMBERS

# Declared by Kubernetes for all rules, but no expression of a definition can have such a value.
AUTHORIZATION = (
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "check",
    "errored",
    "error",
    "allowed",
    "reason",
    "fieldSelector",
    "labelSelector",
)
# Their second argument is not always evaluated, so they are no functions of the libraries.
LAZY = ("or", "orValue")


@pytest.mark.parametrize(
    "text",
    [
        "size: (string) -> int",
        "size: string.() -> int",
        "_[_]: (map(A, B), A) -> B",
        "orValue: optional(V).(V) -> V",
        "list_int_sum_int",
        "list_google.protobuf.Duration_sort",
        "less_equals_uint64_double",
        "format.uuid",
    ],
)
def test_is_declared(text: str) -> None:
    name, _, signature = text.partition(": ")
    overloads = [overload for function in FUNCTIONS.values() for overload in function.overloads]
    if not signature:
        assert any(overload.id == name for overload in overloads)
        return
    assert signature in [
        _signature(overload.arguments, overload.result, overload.member) for overload in FUNCTIONS[name].overloads
    ]


def _signature(arguments: tuple[object, ...], result: object, member: bool) -> str:
    target = f"{arguments[0]!r}." if member else ""
    shown = ", ".join(repr(argument) for argument in arguments[member:])
    return f"{target}({shown}) -> {result!r}".replace("optional_type", "optional")


def test_overload_ids_are_unique() -> None:
    ids = [overload.id for function in FUNCTIONS.values() for overload in function.overloads]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "name",
    sorted(
        name
        for name in FUNCTIONS
        if (name[0].isalpha() or name.startswith("cel.")) and name not in (*AUTHORIZATION, *LAZY)
    ),
)
def test_has_an_implementation(name: str) -> None:
    for overload in FUNCTIONS[name].overloads:
        table = MEMBERS if overload.member else GLOBALS
        assert (name, len(overload.arguments)) in table


def test_formats_and_names() -> None:
    assert len(FORMATS) == 13
    assert IDENTS["google.protobuf.Timestamp"].text == "type(timestamp)"
    assert "dyn" not in IDENTS
