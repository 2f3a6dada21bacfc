"""Expressions of policies: what compiles, what they see, what they say, what they may cost."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any

import pytest

from registry.admission.activation import Activation, EvaluationRounds, Failed, Inputs, OutOfBudget, Paused, values
from registry.admission.authorizer import AuthorizerAnswer, AuthorizerQuestion, Undecided
from registry.admission.environment import PolicyExpression, Scope, compile_expression
from registry.admission.messages import JSON_PATCHES, OBJECT, configuration, operations
from registry.budget import Budget
from registry.cel.common import types
from registry.cel.common.types import Type
from registry.cel.common.values import EvalError, elements

REQUEST: dict[str, Any] = {
    "kind": {"group": "g", "version": "v1", "kind": "K"},
    "operation": "CREATE",
    "name": "a",
    "namespace": "n",
    "requestResource": {"group": "g", "version": "v1", "resource": "ks"},
    "userInfo": {"username": "u", "groups": ["x"]},
    "dryRun": False,
    "options": {"kind": "CreateOptions"},
}
OBJ = {
    "apiVersion": "g/v1",
    "kind": "K",
    "metadata": {"name": "a", "labels": {"l": "m"}},
    "spec": {"size": 3, "ratio": 0.5, "tags": ["x", "y"], "items": [{"a": 1}, {"a": 2}], "none": None, "flag": True},
}


def inputs(**changes: Any) -> Inputs:
    made = Inputs(OBJ, None, REQUEST, {"metadata": {"name": "n", "labels": {"env": "prod"}}})
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def value(text: str, scope: Scope | None = None, **changes: Any) -> Any:
    expression = compile_expression(text, scope or Scope())
    assert expression.error is None, expression.error
    return Activation(inputs(**changes)).value(expression)


@pytest.mark.parametrize(
    "text",
    [
        "object.spec.size == 3",
        "object.spec.ratio < 1.0",
        "object.spec.tags == ['x', 'y']",
        "'x' in object.spec.tags",
        "object.spec.items.map(i, i.a) == [1, 2]",
        "object.spec.items[1].a == 2",
        "has(object.spec.size)",
        "!has(object.spec.gone)",
        "object.metadata.labels == {'l': 'm'}",
        "'l' in object.metadata.labels",
        "object.spec.none == null",
        "object.spec.?gone.orValue(7) == 7",
        "oldObject == null",
        "request.operation == 'CREATE' && request.userInfo.groups.exists(g, g == 'x')",
        "!has(request.subResource)",
        "!request.dryRun",
        "request.options.kind == 'CreateOptions'",
        "namespaceObject.metadata.labels['env'] == 'prod'",
        "object.spec.items.all(i, i.a > 0)",
        "size(object.spec.tags) == 2",
        "object.spec.tags + ['z'] == ['x', 'y', 'z']",
        "type(object) == map",
        "object.spec.items.exists_one(i, i == {'a': 1})",
        "quantity('1Ki').isGreaterThan(quantity('1'))",
        "object.spec.tags.isSorted()",
        "object == object",
        "object.spec.tags.join('-') == 'x-y'",
    ],
)
def test_variables_of_expressions(text: str) -> None:
    assert value(text) is True


@pytest.mark.parametrize(
    "text, scope, wanted, error",
    [
        pytest.param("params.x", Scope(), (), "undeclared reference to 'params'", id="params without a kind"),
        pytest.param("params.x", Scope(params=True), (), "", id="params"),
        pytest.param("authorizer.path('/x').check('get').allowed()", Scope(), (types.BOOL,), "", id="authorizer"),
        pytest.param(
            "authorizer == null", Scope(authorizer=False), (), "undeclared reference to 'authorizer'", id="hidden"
        ),
        pytest.param(
            "variables.a",
            Scope(variables={"a": types.INT}),
            (types.BOOL,),
            "must evaluate to bool but got int",
            id="type of a variable",
        ),
        pytest.param(
            "variables.b", Scope(variables={"a": types.INT}), (), "undefined field 'b'", id="unknown variable"
        ),
        pytest.param(
            "object.a",
            Scope(),
            (types.STRING, types.NULL),
            "must evaluate to one of [string null_type] but got dyn",
            id="one of two",
        ),
        pytest.param("Object{}", Scope(), (), "undeclared reference to 'Object'", id="no mutation"),
        pytest.param("Object{}", Scope(patches=True), (OBJECT,), "", id="mutation"),
        pytest.param("jsonpatch.escapeKey('a')", Scope(), (), "undeclared reference to 'jsonpatch'", id="no escapeKey"),
        pytest.param(
            "[JSONPatch{op: 1}]",
            Scope(patches=True),
            (JSON_PATCHES,),
            "expected type of field 'op' is 'string' but provided type is 'int'",
            id="type of a field",
        ),
        pytest.param(
            "[]",
            Scope(patches=True),
            (JSON_PATCHES,),
            "must evaluate to list(JSONPatch) but got list(dyn)",
            id="an empty list alone",
        ),
        pytest.param("self.x", Scope(), (), "undeclared reference to 'self'", id="self"),
    ],
)
def test_expressions_that_compile(text: str, scope: Scope, wanted: tuple[Type, ...], error: str) -> None:
    found = compile_expression(text, scope, *wanted).error
    assert (error in found.detail) if found is not None and error else (found is None and not error)


@pytest.mark.parametrize(
    "text, error",
    [
        ("object.spec.gone == 1", "expression 'object.spec.gone == 1' resulted in error: no such key: gone"),
        ("oldObject.spec.size == 1", "expression 'oldObject.spec.size == 1' resulted in error: no such key: spec"),
        (
            "object.spec.tags[5] == 'x'",
            "expression 'object.spec.tags[5] == 'x'' resulted in error: index out of bounds: 5",
        ),
        (
            "authorizer.path(' ').check('get').allowed()",
            "expression 'authorizer.path(' ').check('get').allowed()' resulted in error: path must not be empty",
        ),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(Failed) as caught:
        value(text)
    assert str(caught.value) == error


def test_variables_are_evaluated_when_they_are_asked_for() -> None:
    bad = compile_expression("object.gone", Scope(variables={}))
    good = compile_expression("object.spec.size * 2", Scope(variables={}))
    scope = Scope(variables={"bad": bad.type, "good": good.type})
    activation = Activation(inputs(), {"bad": bad, "good": good})
    assert activation.value(compile_expression("variables.good == 6", scope)) is True
    with pytest.raises(Failed, match='composited variable "bad" fails to evaluate: no such key: gone'):
        activation.value(compile_expression("variables.bad == 6", scope))
    with pytest.raises(Failed, match='composited variable "bad" fails to evaluate: no such key: gone'):
        activation.value(compile_expression("has(variables.bad)", scope))
    assert activation.value(compile_expression("has(variables.good)", scope)) is True
    with pytest.raises(Failed, match="no such overload"):
        activation.value(compile_expression("variables == dyn(1)", scope))


LONG = {"spec": {"tags": ["x"] * 2000}}
CUBIC = "object.spec.tags.all(a, object.spec.tags.all(b, a == b))"


def test_one_expression_is_bounded() -> None:
    with pytest.raises((Failed, OutOfBudget)):
        value(CUBIC, object=LONG)


def test_a_policy_is_bounded() -> None:
    def expression() -> PolicyExpression:
        return compile_expression("object.spec.tags.all(a, a == 'x')", Scope())

    activation = Activation(inputs(object=LONG), budget=50_000)
    for _ in range(3):
        assert activation.value(expression()) is True
    activation.budget = 1000
    with pytest.raises(OutOfBudget):
        activation.value(expression())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("object.spec.tags.all(a, a == 'x') && object.gone", id="an error after a loop"),
        pytest.param("object.spec.tags.map(a, object.spec.gone).size() > 0", id="an error in a loop"),
        pytest.param("variables.fails > 1", id="a variable without a value"),
        pytest.param("variables.fails > 1 || true", id="a variable without a value, whose error is absorbed"),
        pytest.param("variables.dear > 1", id="a variable over the limit of an expression"),
    ],
)
def test_evaluations_that_fail_are_charged(text: str) -> None:
    fails = compile_expression("object.spec.tags.map(a, a + 'y').size() + object.gone", Scope(variables={}))
    dear = compile_expression(f"{CUBIC} ? 1 : 2", Scope(variables={}))
    scope = Scope(variables={"fails": fails.type, "dear": dear.type})
    budget = 10_000_000
    activation = Activation(inputs(object=LONG), {"fails": fails, "dear": dear}, budget)
    with contextlib.suppress(Failed):
        activation.value(compile_expression(text, scope))
    assert activation.budget <= budget - (1 if "map" in text else 4000)


def test_variables_stop_at_the_budget_of_the_policy() -> None:
    """Not after the expression that asks for all of them."""
    variables = {f"v{n}": compile_expression(f"{CUBIC} ? {n} : 2", Scope(variables={})) for n in range(40)}
    scope = Scope(variables={name: e.type for name, e in variables.items()})
    activation = Activation(inputs(object=LONG), variables)
    began = time.process_time()
    with pytest.raises(OutOfBudget):
        activation.value(compile_expression(" || ".join(f"variables.{name} > 50" for name in variables), scope))
    evaluated = [name for name in variables if variables[name]._program is not None]
    assert len(evaluated) == 11
    assert time.process_time() - began < 10


SCALARS = {
    "l": list(range(4000)),
    "s": [f"a{n}" for n in range(4000)],
    "m": {f"k{n}": n for n in range(4000)},
    "x": [n if n % 2 else float(n) for n in range(4000)],
    "n": [[n] for n in range(4000)],
    "o": [{"a": n} for n in range(4000)],
}


@pytest.mark.parametrize(
    "text",
    [
        "object.l.all(a, object.l.exists(b, a == b))",
        "object.l.all(a, a in object.l)",
        "object.s.all(a, a in object.s)",
        "object.n.all(a, a in object.n)",
        "object.o.all(a, a in object.o)",
        "object.x.all(a, a in object.x)",
        "object.l.all(a, object.l == object.l)",
        "object.l.all(a, object.x == object.x)",
        "object.l.all(a, object.m == object.m)",
        "object.l.all(a, object.n == object.n)",
        "object.l.all(a, object.o == object.o)",
        "object.l.all(a, dyn(object.l) == dyn(object.x))",
        "object.l.map(a, object.l + object.l).size() > 0",
        "object.l.all(a, object.m.all(k, object.m[k] >= 0))",
        "object.l.all(a, object.s.join('').size() > 0)",
        "object.l.exists(a, object.l.map(b, [a, b]) == object.n)",
        "object.l.all(a, object.l.sum() >= 0)",
        "object.l.all(a, object.l.isSorted())",
        "object.l.all(a, object.l.indexOf(a) >= 0)",
        "object.l.all(a, sets.contains(object.l, [a]))",
        "object.l.all(a, object.l.distinct().size() > 0)",
        "object.l.all(a, object.l.max() >= 0)",
        "object.l.all(a, object.l.sort().size() > 0)",
        "object.l.all(a, object.n.flatten().size() > 0)",
        "object.l.all(a, object.l.map(b, {'a': b}) == object.o)",
        "object.l.all(a, object.s.map(s, s + s).size() > 0)",
    ],
)
def test_the_time_of_an_expression_is_bounded(text: str) -> None:
    """Over lists without a schema, whose elements cost more than kube-apiserver counts."""
    expression = compile_expression(text, Scope())
    assert expression.error is None, expression.error
    began = time.process_time()
    with contextlib.suppress(Failed, OutOfBudget):
        Activation(inputs(object=SCALARS)).value(expression)
    assert time.process_time() - began < 5  # 250 ms, with and without exact counts, on a busy machine


@pytest.mark.parametrize(
    "text, found",
    [
        ("1 in object.l", True),
        ("1 in object.flags", False),
        ("2.0 in object.l", True),
        ("2 in object.x", True),
        ("'a1' in object.s", True),
        ("true in object.flags", True),
        ("true in object.l", False),
        ("5000 in object.l", False),
        ("9007199254740993 in object.far", True),
        ("object.l == object.l", True),
        ("[1, 2] == object.pair", True),
        ("object.flags == object.bits", False),
        ("object.far == [9007199254740993]", True),
        ("null in object.nulls", True),
        ("object.nulls == object.nulls", True),
        ("[1] in object.n", True),
    ],
)
def test_lists_without_a_schema(text: str, found: bool) -> None:
    obj = {**SCALARS, "flags": [True], "bits": [1], "far": [9007199254740992.0], "pair": [1.0, 2], "nulls": [None]}
    assert value(text, object=obj) is found


def test_evaluation_resumes_after_a_pause() -> None:
    pauses = iter([True, True, False, True])
    made = inputs(rounds=EvaluationRounds(lambda: next(pauses, False)))
    expressions = [compile_expression(f"object.spec.size == {n}", Scope()) for n in range(5)]
    found, begun = None, 0
    while found is None:
        begun += 1
        with contextlib.suppress(Paused):
            found = made.rounds.run(lambda: values(made.activation("validations", None), expressions))
    assert found == [False, False, False, True, False]
    assert begun == 4


def test_the_time_of_all_evaluations_of_a_request_is_bounded() -> None:
    made = inputs()
    expression = compile_expression("object.spec.size == 3", Scope())
    request = Budget(seconds=0.0)
    with request, pytest.raises(OutOfBudget):
        made.rounds.run(lambda: Activation(made).value(expression))


def test_evaluations_share_the_time_of_their_request() -> None:
    made = inputs()
    text = "[0].all(a, object.spec.list.all(x, object.spec.list.exists(y, y == x + 1 || y == 999)))"
    made.object["spec"]["list"] = [*range(1000)]

    def evaluate_all() -> type[Exception] | None:
        last: type[Exception] | None = None
        for n in range(100):
            activation, expression = Activation(made), compile_expression(f"{text} && {n} >= 0", Scope())
            try:
                made.rounds.run(partial(activation.value, expression))
            except (Failed, OutOfBudget) as failure:
                last = type(failure)
        return last

    with Budget(seconds=0.2) as request:
        assert evaluate_all() is OutOfBudget
        assert -2 < request.seconds <= 0


def test_three_questions_about_rights_are_too_much_for_one_expression() -> None:
    made = inputs()
    asked = "authorizer.group('').resource('pods').check('{0}').allowed()"
    for verb in ("get", "list", "watch"):
        made.decisions.known[AuthorizerQuestion(None, verb, "", "", "pods")] = AuthorizerAnswer(True)
    two = compile_expression(" && ".join(map(asked.format, ("get", "list"))), Scope())
    three = compile_expression(" && ".join(map(asked.format, ("get", "list", "watch"))), Scope())
    assert Activation(made).value(two) is True
    with pytest.raises(Failed, match="actual cost limit exceeded"):
        Activation(made).value(three)


def test_questions_about_rights_wait_for_their_answer() -> None:
    made = inputs()
    expression = compile_expression("authorizer.requestResource.check('get').reason() == 'because' || true", Scope())
    with pytest.raises(Undecided) as caught:
        Activation(made).value(expression)
    question = caught.value.question
    assert question == AuthorizerQuestion(None, "get", "", "g", "ks", "", "n", "a")
    made.decisions.known[question] = AuthorizerAnswer(False, "because")
    assert Activation(made).value(expression) is True


@pytest.mark.parametrize(
    "text, question",
    [
        (
            "authorizer.group('g').resource('r').subresource('s').namespace('n').name('x').check('get').allowed()",
            AuthorizerQuestion(None, "get", "", "g", "r", "s", "n", "x"),
        ),
        (
            "authorizer.serviceAccount('n', 'sa').path('/healthz').check('get').allowed()",
            AuthorizerQuestion(("n", "sa"), "get", "/healthz"),
        ),
        (
            "authorizer.group('').resource('r').fieldSelector('a=b').labelSelector('c').check('list').errored()",
            AuthorizerQuestion(None, "list", "", "", "r", "", "", "", "a=b", "c"),
        ),
    ],
)
def test_questions(text: str, question: AuthorizerQuestion) -> None:
    with pytest.raises(Undecided) as caught:
        value(text)
    assert caught.value.question == question


def test_configurations() -> None:
    made = value(
        "Object{metadata: Object.metadata{labels: {'a': 'b'}}, spec: Object.spec{size: object.spec.size + 1, "
        "list: [Object.spec.list{n: 1}], ?gone: optional.none()}}",
        Scope(patches=True),
    )
    assert configuration(made) == {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 4, "list": [{"n": 1}]}}


def test_parts_are_named_after_their_path() -> None:
    made = value("Object{spec: Object.status{a: 1}}", Scope(patches=True))
    with pytest.raises(EvalError, match=r'unexpected type name "Object\.status", expected "Object\.spec"'):
        configuration(made)


def test_json_patches() -> None:
    made = value(
        "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('x/y~z'), "
        "value: {'k': [object.spec.items[0]]}}, JSONPatch{op: 'move', from: '/a', path: '/b'}, "
        "JSONPatch{op: 'add', path: '/c', value: Object.c{d: 1}}]",
        Scope(patches=True),
    )
    assert operations(elements(made)) == [
        {"op": "add", "path": "/a/x~1y~0z", "value": {"k": [{"a": 1}]}},
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/c", "value": {"d": 1}},
    ]
