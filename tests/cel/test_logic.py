"""Logic and loops: which errors count, and that both ways of counting give the same value."""

from __future__ import annotations

import pytest

from tests.cel.evaluation import outcome, program

BAD = "1 / 0 == 1"
DIVISION = "error: division by zero"


@pytest.mark.parametrize(
    "expression, expected",
    [
        (f"{BAD} && false", "false"),
        (f"false && {BAD}", "false"),
        (f"{BAD} && true", DIVISION),
        (f"true && {BAD}", DIVISION),
        (f"{BAD} || true", "true"),
        (f"true || {BAD}", "true"),
        (f"{BAD} || false", DIVISION),
        (f"{BAD} && [1][3] == 1", DIVISION),
        (f"[1][3] == 1 && {BAD}", "error: index out of bounds: 3"),
        (f"{BAD} && true && false", "false"),
        (f"{BAD} || false || true", "true"),
        (f"{BAD} || false || [1][3] == 1", DIVISION),
        ("dyn(1) && true", "error: no such overload"),
        ("dyn(1) && false", "false"),
        ("!dyn(1)", "error: no such overload"),
        ("!dyn([])", "error: no such overload"),
        ("-dyn('a')", "error: no such overload"),
        ("-dyn(true)", "error: no such overload"),
        ("-dyn([])", "error: no such overload: -_"),
        ("dyn(1) ? 1 : 2", "error: no such overload"),
        ("dyn('a') - 1", "error: no such overload"),
        ("dyn(true) - 1", "error: no such overload: _-_"),
        ("dyn(duration('1h')) * 2", "error: no such overload"),
        ("dyn([]) * 2", "error: no such overload: _*_"),
        ("1 in dyn('a')", "error: no such overload"),
        (f"({BAD}) in []", "false"),
        ("[1][3] in [1, 2]", "error: index out of bounds: 3"),
        ("dyn(1).orValue(2)", "1"),
        ("dyn(1).or(optional.of(2))", "1"),
        ("dyn(1).startsWith('a')", "error: no such overload"),
        ("dyn(1).contains('a')", "error: no such overload"),
        ("dyn(1).matches('a')", "error: no such overload"),
        ("dyn(1).flatten()", "error: no such overload: int.flatten()"),
        ("dyn('a').flatten(2)", "error: no such overload: string.flatten(int)"),
        ("dyn('a').slice(0, 1)", "error: no such overload: slice(string, int, int)"),
        ("dyn(1).join(',')", "error: no such overload: join(int, string)"),
        ("dyn(1).sort()", "error: no such overload: sort"),
        *(
            (f"dyn(1).{name}()", f"error: no such overload: {name}(int)")
            for name in ("isSorted", "sum", "min", "max", "reverse", "first", "last")
        ),
        ("size({[1]: 1, [1]: 2})", "2"),
        ("{dyn([1]): 1} == {dyn([1]): 1}", "false"),
        ("{b'a': 1}", "error: internal error: runtime error: hash of unhashable type types.Bytes"),
        (f"true ? 1 : ({BAD} ? 2 : 3)", "1"),
        (f"{BAD} ? 1 : 2", DIVISION),
    ],
)
def test_errors_of_operators(expression: str, expected: str) -> None:
    assert outcome(expression) == expected


@pytest.mark.parametrize(
    "expression, expected",
    [
        ("[1, 0, 2].all(x, 2 / x > 0)", DIVISION),
        ("[1, 0, -2].all(x, 2 / x > 0)", "false"),
        ("[0, 1].exists(x, 2 / x > 0)", "true"),
        ("[0, -1].exists(x, 2 / x > 0)", DIVISION),
        ("[0, 1].exists_one(x, 2 / x > 0)", DIVISION),
        ("[2, 1, -1].exists_one(x, x > 1)", "true"),
        ("[2, 3].exists_one(x, x > 1)", "false"),
        ("[1, 0].map(x, 2 / x)", DIVISION),
        ("[1, 0].filter(x, 2 / x > 0)", DIVISION),
        ("[1, 2, 3].filter(x, x > 1)", "[2, 3]"),
        ("[1, 2, 3].map(x, x > 1, x * 2)", "[4, 6]"),
        ("{'a': 1, 'b': 2}.map(k, k)", "['a', 'b']"),
        ("{'a': 1}.all(k, k == 'a')", "true"),
        ("[].all(x, x > 0) && ![].exists(x, x > 0)", "true"),
        ("[[1, 2], [3]].map(x, x.map(y, y + x.size()))", "[[3, 4], [4]]"),
        ("[1, 2].map(x, [x].map(x, x * 10))", "[[10], [20]]"),
        ("[dyn(1)].all(x, dyn(x))", "error: no such overload"),
        ("dyn(1).all(x, true)", "error: got 'types.Int', expected iterable type"),
    ],
)
def test_loops(expression: str, expected: str) -> None:
    assert outcome(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2, 3].all(x, x > 0 && x < 10)",
        "[1, 2, 3].exists(x, x == 2)",
        "'abc' + 'def' == 'abcdef' || 'a'.startsWith('b')",
        "[1, 2].map(x, 'a'.matches('^a' + string(x)))",
        "'a-b-c'.split('-').join(',').size() > 3",
        "{'a': [1, 2]}.a.sum() == 3 ? 'yes'.upperAscii() : 'no'",
        "[3, 1, 2].sort() == [1, 2, 3]",
        "has({'a': 1}.a) && optional.of(1).hasValue()",
    ],
)
def test_the_bound_is_never_below_the_exact_cost(expression: str) -> None:
    fast = program(expression, {})
    frame, exact_frame = fast.frame(), fast.exact().frame()
    assert fast.run(frame) == fast.exact().run(exact_frame)
    assert 0 < exact_frame[0] <= frame[0]


@pytest.mark.parametrize(
    "expression, cost",
    [
        ("1 == 1", 1),
        ("[1, 2].all(x, x > 0)", 10 + 2 * (3 + 2) + 1),
        ("[1, 2].exists(x, x > 0)", 10 + (4 + 2) + 1),
        ("'0123456789012345'.contains('0123456789a')", 4),
        ("'01234567890' == '01234567890'", 2),
        ("'01234567890' + '01234567890' == ''", 3),
        ("'abc'.matches('a.c.e')", 2),
        ("{'a': 1}.a", 30 + 2),
    ],
)
def test_exact_costs(expression: str, cost: int) -> None:
    exact = program(expression, {}).exact()
    frame = exact.frame()
    exact.run(frame)
    assert frame[0] == cost
