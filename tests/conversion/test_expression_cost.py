"""What an expression of a conversion rule may cost."""

from __future__ import annotations

import pytest

from registry.conversion.declarative.expression import ExpressionError, compile_expression
from registry.schema.model import from_json

SCHEMA = from_json({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}}})
OBJ = {"l": list(range(1, 9001))}
# Its dearer branch would cost too much, but is never reached.
CHEAP = f"self.l.all(a, a > 0 ? true : {' + '.join(['a'] * 240)} > 0)"


def test_unreached_expressions_cost_nothing() -> None:
    expression = compile_expression(CHEAP, SCHEMA)
    assert expression.value(OBJ) is True
    found, spent = expression.evaluate_charged(OBJ, 100)
    assert found is True
    assert 0 < spent < 100_000


def test_evaluated_expressions_are_charged() -> None:
    expression = compile_expression("self.l.all(a, self.l.all(b, a + b > 0))", SCHEMA)
    for evaluate in (expression.value, lambda obj: expression.evaluate_charged(obj, 0)):
        with pytest.raises(ExpressionError, match="costs more than an expression may"):
            evaluate(OBJ)
