"""One expression from text to cost: what is compiled, and that any text gives an error at worst."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.cel.checker.schema_types import Declared, declare
from registry.cel.rules.expressions import MESSAGE, RULE, compile_expression
from registry.schema.model import from_json
from tests.cel.texts import BROKEN_TEXTS, EXPRESSIONS


def _declared() -> Declared:
    found = declare(
        from_json(
            {
                "type": "object",
                "properties": {
                    "a": {"type": "integer"},
                    "b": {"type": "string"},
                    "x": {"x-kubernetes-int-or-string": True},
                    "self": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                },
            }
        ),
        True,
    )
    assert found is not None
    return found


DECLARED = _declared()


def test_rule() -> None:
    compiled = compile_expression("self.a > 1 && oldSelf.a < 1", DECLARED, RULE)
    assert (compiled.error, compiled.cost, compiled.uses_old_self) == ("", 6, True)
    assert compiled.declared is DECLARED


def test_optional_old_self() -> None:
    text = "oldSelf.?a.orValue(1) == self.a"
    assert compile_expression(text, DECLARED, RULE, optional_old_self=True).error == ""
    assert compile_expression("oldSelf.a + 1 == 2", DECLARED, RULE, optional_old_self=True).error != ""


def test_message() -> None:
    assert compile_expression("self.b", DECLARED, MESSAGE).error == ""
    assert compile_expression("self.x", DECLARED, MESSAGE).error == "messageExpression must evaluate to a string"
    assert compile_expression("self.?b", DECLARED, MESSAGE).error == "messageExpression must evaluate to a string"


@pytest.mark.parametrize(
    "text, uses",
    [
        ("self.a == oldSelf.a", True),
        ("self.b == 'oldSelf'", False),
        ("has(self.oldSelf)", False),
        ("[1].filter(oldSelf, true) == []", True),
        ("[1].all(oldSelf, true)", False),
        (".oldSelf.a == 1", True),
    ],
)
def test_uses_old_self(text: str, uses: bool) -> None:
    assert compile_expression(text, DECLARED, RULE).uses_old_self is uses


@pytest.mark.slow
@given(st.one_of(BROKEN_TEXTS, EXPRESSIONS, st.text(max_size=60)))
@settings(max_examples=300, deadline=None)
def test_arbitrary_text_compiles_or_is_an_error(text: str) -> None:
    compiled = compile_expression(text, DECLARED, RULE)
    if compiled.error:
        assert compiled.error.startswith(
            (
                "compilation failed: ERROR: <input>:",
                "program instantiation failed: ",
                "cel expression must evaluate to a bool",
            )
        )
    else:
        assert 0 <= compiled.cost < 2**64


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 249 + "]" * 249, id="lists"),
        pytest.param("!(" * 249 + "true" + ")" * 249, id="nots"),
        pytest.param("-(" * 249 + "1" + ")" * 249, id="signs"),
        pytest.param("size([" * 124 + "1" + "])" * 124, id="calls of lists"),
        pytest.param("true ? true : " * 249 + "true", id="ternaries"),
        pytest.param("self.self" + ".map(x, x)" * 200, id="macros on macros"),
        pytest.param("self.self.all(x, " * 200 + "true" + ")" * 200, id="macros in macros"),
        pytest.param("[]" + " + []" * 248, id="sums of unknown types"),
        pytest.param("{1: " * 240 + "1" + "}" * 240, id="maps"),
        pytest.param("self.x" + ".y" * 240, id="selections"),
        pytest.param("self.x" + "[0]" * 240, id="indexes"),
        pytest.param("'a'.format([" * 100 + "1" + "])" * 100, id="formats"),
    ],
)
def test_deep_expressions(text: str) -> None:
    """However deep, and however few frames the caller has left: a result, and no RecursionError."""
    compile_expression(text, DECLARED, RULE)
    assert _deep_in_frames(500, text)


def _deep_in_frames(frames: int, text: str) -> bool:
    if frames:
        return _deep_in_frames(frames - 1, text)
    compile_expression(text, DECLARED, RULE)
    return True
