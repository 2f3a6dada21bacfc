"""JSONPath as printer columns use it."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.api.tables.jsonpath import MAX_VISITS, JsonPathError, compile_path
from registry.budget import Budget, BudgetExceeded

OBJECT: dict[str, Any] = {
    "spec": {
        "a": 1,
        "none": None,
        "text": "abc",
        "empty": [],
        "on": True,
        "half": 0.5,
        "list": ["x", "y", "z"],
        "parts": [{"n": "p", "v": 1}, {"n": "q", "v": 2, "deep": {"v": 9}}, {"v": 3}],
        "map": {"a.b": "dotted", "k": {"v": 7}},
    }
}


def find(path: str, value: Any) -> list[Any]:
    return compile_path(path)(value, Budget(MAX_VISITS))


@pytest.mark.parametrize(
    "path, found",
    [
        (".spec.a", [1]),
        (".spec.none", [None]),
        (".spec.missing", []),
        (".spec.a.b", []),
        (".spec.none.x", []),
        (".spec.list", [["x", "y", "z"]]),
        (".spec.list.x", []),
        (".spec.list[0]", ["x"]),
        (".spec.list[-1]", ["z"]),
        (".spec.list[1:]", ["y", "z"]),
        (".spec.list[:2]", ["x", "y"]),
        (".spec.list[-2:]", ["y", "z"]),
        (".spec.list[:-1]", ["x", "y"]),
        (".spec.list[0:3:2]", ["x", "z"]),
        (".spec.list[::2]", ["x", "z"]),
        (".spec.list[*]", ["x", "y", "z"]),
        (".spec.list[1:1]", []),
        (".spec.list[0,2]", ["x", "z"]),
        (".spec.parts[0].n", ["p"]),
        (".spec.parts[*].n", ["p", "q"]),
        (".spec.parts[5:5].n", []),
        (".spec['a']", [1]),
        (".spec['a','on']", [1, True]),
        ("['spec']['a']", [1]),
        (r".spec.map.a\.b", ["dotted"]),
        (r".spec.map['a\.b']", ["dotted"]),
        (".spec.map['a.b']", []),
        (".spec.map.*", ["dotted", {"v": 7}]),
        (".spec.list[1].*", [121]),
        (".spec.parts[?(@.n=='q')].v", [2]),
        ('.spec.parts[?(@.n=="q")].v', [2]),
        (".spec.parts[?(@.n == 'q')].v", [2]),
        (".spec.parts[?(@.n!='q')].v", [1]),
        (".spec.parts[?(@.v>1)].v", [2, 3]),
        (".spec.parts[?(@.v>=2)].v", [2, 3]),
        (".spec.parts[?(@.v<2)].v", [1]),
        (".spec.parts[?(@.v<=2)].v", [1, 2]),
        (".spec.parts[?(@.deep)].v", [2]),
        (".spec.parts[?(@.deep.v==9)].n", ["q"]),
        (".spec.parts[?(@.none)].v", []),
        (".spec.parts[?(@.n in 'q')].v", [1, 2]),
        (".spec.parts[?(@.v[0])].v", [1, 2, 3]),
        ("..v", [1, 2, 9, 3, 7]),
        (".spec.parts..v", [1, 2, 9, 3]),
        (".spec.list[?(@=='y')]", ["y"]),
        (".spec.list[?(@ > 'x')]", ["y", "z"]),
        (".spec.a}x{.spec.on", [1]),
        ("@.spec.a", [1]),
        ("$.spec.a", [1]),
        ("", [OBJECT]),
        (".", []),
        (".spec.empty[*]", []),
        (".spec.none[0]", []),
        (".spec.parts[?(@.n==')')].v", []),
        (".spec.parts[?(@.n=='\\u0071')].v", [2]),
    ],
)
def test_found(path: str, found: list[Any]) -> None:
    assert find(path, OBJECT) == found


@pytest.mark.parametrize(
    "path",
    [
        ".spec.list[3]",
        ".spec.list[-4]",
        ".spec.list[0:9]",
        ".spec.list[2:1]",
        ".spec.list[0:2:0]",
        ".spec.empty[0]",
        ".spec.a[0]",
        ".spec.text[0]",
        ".spec.map[?(@.a)]",
        ".spec.parts[?(@.v=='1')]",
        ".spec.parts[?(@.v==1.0)]",
        ".spec.parts[?(@..v==1)]",
        ".spec.parts[?(@.deep==1)]",
        ".spec.a range",
        ".spec.parts[?(@.v==true)]",
        ".spec.a}{.spec.a[0]",
    ],
)
def test_fails_when_it_is_evaluated(path: str) -> None:
    evaluate = compile_path(path)
    with pytest.raises(JsonPathError):
        evaluate(OBJECT, Budget(MAX_VISITS))


@pytest.mark.parametrize(
    "path",
    [
        ".spec.list[",
        ".spec.list[a]",
        ".spec['a",
        '.spec["a"]',
        ".spec.parts[?(@.a",
        ".spec.parts[?(@.a)",
        ".spec.parts[?(@.v=~'1')]",
        "....",
        ".a #",
        ".a ;",
        "{",
        ".a\n",
        ".a '",
        "[0:1:2:3]",
        "1.2.3",
        ".a '\\x'",
        ".a" * 5000,
        ".a[" + "9" * 30 + "]",
        "[?(" * 30 + "@.a" + ")]" * 30,
    ],
)
def test_cannot_be_parsed(path: str) -> None:
    with pytest.raises(JsonPathError):
        compile_path(path)


def test_booleans_have_no_order() -> None:
    values = {"l": [{"b": True}, {"b": False}]}
    assert find(".l[?(@.b==true)]", values) == [{"b": True}]
    assert find(".l[?(@.b!=true)]", values) == [{"b": False}]
    with pytest.raises(JsonPathError):
        find(".l[?(@.b<true)]", values)


def _deep(depth: int, leaves: int = 2) -> Any:
    value: Any = {"a": 1}
    for _ in range(depth):
        value = {"a": value, "b": [1] * leaves}
    return value


DEEP: Any = _deep(180)
WIDE: Any = {"l": [[1] * 60] * 60, "o": [{"k": [{"v": "x" * 5000}] * 40}] * 40}


@pytest.mark.parametrize(
    "path, value",
    [
        pytest.param("..a..a.zz", _deep(180, 5000), id="descents past leaves"),
        pytest.param("..a..a..a.zz", DEEP, id="descents without a result"),
        pytest.param("..a..b.zz", _deep(600), id="descents with few results"),
        pytest.param("..a" * 20, _deep(60), id="many descents"),
        pytest.param(".l[" + ",".join("*" * 9) + "][" + ",".join("*" * 9) + "].zz", WIDE, id="unions"),
        pytest.param(".l" + "[0,0]" * 20, {"l": [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]}, id="unions that double"),
        pytest.param(".o[*,*,*].k[?(@.v==@.v)].v", WIDE, id="comparing long texts"),
        pytest.param(".o[?(@..v)].zz", {"o": [DEEP] * 300}, id="filters that descend"),
    ],
)
def test_visits_are_bounded(path: str, value: Any) -> None:
    budget = Budget(MAX_VISITS)
    began = time.process_time()
    with pytest.raises(BudgetExceeded):
        compile_path(path)(value, budget)
    assert time.process_time() - began < 5
    assert budget.left == 0


def test_a_large_object_can_be_visited_once() -> None:
    budget = Budget(MAX_VISITS)
    assert compile_path("..zz")({"l": [{"n": n} for n in range(30_000)]}, budget) == []
    assert 0 < budget.left < MAX_VISITS


def test_deep_values_do_not_recurse() -> None:
    value: Any = 1
    for _ in range(20_000):
        value = [value]
    assert find("..x", value) == []


@given(st.text(".$@*[]?()'\"\\,:-0123 <=>!~ab{}\n", max_size=25))
def test_arbitrary_text_is_a_path_or_an_error(text: str) -> None:
    with contextlib.suppress(JsonPathError):
        assert isinstance(find(text, OBJECT), list)
