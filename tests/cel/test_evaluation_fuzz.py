"""Any text that parses evaluates to a value or an EvalError, on any object: never a crash, never without end."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.cel.checker.checker import check
from registry.cel.checker.schema_types import declare
from registry.cel.common.values import CostExceeded, EvalError
from registry.cel.ext.table import GLOBALS, MEMBERS
from registry.cel.interpreter.compile import compile_program
from registry.cel.interpreter.views import view_of
from registry.cel.rules.expressions import OLD_SELF, SELF
from registry.cel.rules.rules import Rules
from registry.cel.syntax.parser import parse
from registry.schema.model import from_json
from tests.cel.expressions import of_depth

SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large)
)

SCHEMA = from_json(
    {
        "type": "object",
        "properties": {
            "i": {"type": "integer"},
            "s": {"type": "string"},
            "n": {"type": "number"},
            "t": {"type": "string", "format": "date"},
            "l": {"type": "array", "items": {"type": "integer"}},
            "x": {"x-kubernetes-int-or-string": True},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "m": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
            "o": {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    }
)
DECLARED = declare(SCHEMA)
VIEW = view_of(SCHEMA)
assert DECLARED is not None
TYPE = DECLARED.type

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=4)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
)
OBJECTS = st.fixed_dictionaries({}, optional=dict.fromkeys(SCHEMA.properties, JSON))

ATOMS = st.sampled_from(
    [
        "self",
        "oldSelf",
        "self.i",
        "self.s",
        "self.l",
        "self.m",
        "self.o",
        "self.x",
        "self.set",
        "self.t",
        "self.n",
        "null",
        "1",
        "-1",
        "2.5",
        "'a'",
        "''",
        "b'a'",
        "1u",
        "[]",
        "{}",
        "[1, 'a']",
        "{'a': 1}",
        "optional.none()",
        "duration('1s')",
        "timestamp(0)",
        "int",
        "'('",
        "'1Gi'",
        "'10.0.0.0/8'",
    ]
)
OPERATORS = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||"])


def _call(template: str, count: int, inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*[inner] * count).map(lambda parts: template.format(*parts))


def _calls(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Every function of every library, with arguments of any type."""
    names = [(f"{name}({', '.join(['{}'] * count)})", count) for name, count in GLOBALS if "@" not in name]
    names += [
        ("{}." + f"{name}({', '.join(['{}'] * (count - 1))})", count) for name, count in MEMBERS if "@" not in name
    ]
    return st.sampled_from(sorted(names)).flatmap(lambda found: _call(found[0], found[1], inner))


_FORMS = [
    ("({} ? {} : {})", 3),
    ("!{}", 1),
    ("{}[{}]", 2),
    ("{}[?{}]", 2),
    ("{}.a", 1),
    ("{}.?a.b", 1),
    ("has({}.a)", 1),
    ("[{}, {}]", 2),
    ("{{{}: {}}}", 2),
    ("{}.all(v, {} == v)", 2),
    ("{}.exists_one(v, v == {})", 2),
    ("{}.map(v, [v, {}])", 2),
    ("{}.filter(v, {})", 2),
    ("{}.exists(i, v, {} == v)", 2),
    ("{}.transformMap(k, v, [k, v, {}])", 2),
    ("{}.sortBy(v, {})", 2),
    ("{}.optMap(v, {})", 2),
    ("{}.or({})", 2),
    ("{}.orValue({})", 2),
]


def _more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operations = st.tuples(inner, OPERATORS, inner).map(lambda parts: f"({' '.join(parts)})")
    return st.one_of(operations, _calls(inner), *[_call(template, count, inner) for template, count in _FORMS])


WILD = st.recursive(ATOMS, _more, max_leaves=8)


def evaluate(text: str, obj: Any) -> None:
    parsed = parse(text)
    if parsed.root is None:
        return
    checked = check(parsed, {SELF: TYPE, OLD_SELF: TYPE})
    program = compile_program(checked, {SELF: VIEW, OLD_SELF: VIEW})
    for compiled in (program, program.exact()):
        try:
            compiled.evaluate(obj, obj)
        except (EvalError, CostExceeded):
            pass


@SETTINGS
@given(WILD, OBJECTS)
def test_expressions_of_any_types(text: str, obj: Any) -> None:
    evaluate(text, obj)


@SETTINGS
@given(st.one_of(*of_depth(2).values()), st.integers(0, 60), st.text("()[]{}.,?:+-*/%!&|<>=' \"abx19u\\", max_size=3))
def test_mutated_expressions(text: str, position: int, change: str) -> None:
    evaluate(text[:position] + change + text[position + 1 :], {})


@SETTINGS
@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    evaluate(text, {})


@SETTINGS
@given(WILD, OBJECTS, OBJECTS)
def test_rules_of_any_text(text: str, obj: Any, old: Any) -> None:
    """A rule that should never have been stored is an error of the object, and says so."""
    rules = Rules(
        from_json(
            {
                "type": "object",
                "properties": {
                    "spec": {
                        "type": "object",
                        "properties": {"i": {"type": "integer"}, "s": {"type": "string"}},
                        "x-kubernetes-validations": [{"rule": text, "messageExpression": text}],
                    }
                },
            }
        )
    )
    for error in rules.validate({"spec": obj}, {"spec": old}):
        assert error.message()
