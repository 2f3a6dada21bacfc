"""`registry cel check` and `registry cel eval`: output for each rule, and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from registry.cli.root import main

API_VERSION = "shop.example.com/v1"


def definition(rules: list[dict[str, Any]], **properties: Any) -> dict[str, Any]:
    """Orders, whose spec has these properties and rules."""
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "orders.shop.example.com"},
        "spec": {
            "group": "shop.example.com",
            "scope": "Namespaced",
            "names": {"plural": "orders", "kind": "Order"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


class Author:
    """Runs the commands on files."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def check(self, crd: dict[str, Any], *flags: str) -> tuple[int, str, str]:
        return self._run("check", self._file("crd", crd), *flags)

    def evaluate(
        self, crd: dict[str, Any], spec: Any, old: Any = None, kind: str = "Order", *flags: str
    ) -> tuple[int, str, str]:
        def obj(spec: Any) -> dict[str, Any]:
            return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "a"}, "spec": spec}

        olds = ["--old", self._file("old", obj(old))] if old is not None else []
        return self._run("eval", self._file("crd", crd), "--object", self._file("object", obj(spec)), *olds, *flags)

    def _file(self, name: str, document: Any) -> str:
        path = self._folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    def _run(self, *arguments: str) -> tuple[int, str, str]:
        code = main(["cel", *arguments])
        said = self._capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def author(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Author:
    return Author(tmp_path, capsys)


SIZE = {"type": "integer"}
NAMES = {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 5}}


def test_a_rule_is_shown_with_its_type_and_estimated_cost(author: Author) -> None:
    rules = [{"rule": "self.size > 0"}, {"rule": "self.names.all(n, n != '')", "message": "no empty names"}]
    code, out, err = author.check(definition(rules, size=SIZE, names=NAMES))
    assert (code, err) == (0, "")
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "orders.shop.example.com v1"
    assert lines[1:6] == [
        "properties[spec].x-kubernetes-validations[0]: self.size > 0",
        "self: object {names: list(string), size: int}",
        "estimated cost: 3 of 10000000",
        "accepted",
        "cel-python: can be parsed",
    ]
    assert lines[-2].startswith("all rules: estimated cost ")


def test_rejected_rules_are_shown_with_their_path(author: Author) -> None:
    texts = {"type": "array", "items": {"type": "string"}}
    rules = [
        {"rule": "self.size"},
        {"rule": "self.absent > 0"},
        {"rule": "self.texts.all(a, self.texts.all(b, a.contains(b)))"},
    ]
    code, out, err = author.check(definition(rules, size=SIZE, texts=texts))
    assert code == 1
    refused = [line.strip() for line in out.splitlines() if "refused: " in line]
    assert refused[0] == "refused: cel expression must evaluate to a bool"
    assert "undefined field 'absent'" in refused[1]
    assert "estimated rule cost exceeds budget by factor of more than 100x" in refused[2]
    assert err.startswith("refused: spec.validation.openAPIV3Schema")  # the cost of all together


def test_the_cost_of_items_is_multiplied(author: Author) -> None:
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}
    code, out, _ = author.check(definition([], sizes={"type": "array", "maxItems": 7, "items": item}))
    assert code == 0
    assert "self: int" in out
    assert "estimated cost: 14 of 10000000 (2 each, at most 7 times)" in out


def test_each_evaluation_is_shown_with_its_result_message_and_cost(author: Author) -> None:
    rules = [{"rule": "self.size > 0"}, {"rule": "self.size < 5", "messageExpression": "'at most 5 of ' + self.label"}]
    crd = definition(rules, size=SIZE, label={"type": "string", "maxLength": 9})
    code, out, err = author.evaluate(crd, {"size": 9, "label": "red"})
    assert code == 1
    assert [line.strip() for line in out.splitlines()] == [
        "spec: self.size > 0",
        "holds, cost 3 of 1000000",
        "cel-python: agrees",
        "spec: self.size < 5",
        "does not hold, cost 7 of 1000000",
        "message: at most 5 of red",
        "cel-python: agrees",
        "2 evaluations: cost 10 of 10000000",
    ]
    assert err == "invalid: spec: Invalid value: at most 5 of red\n"
    assert author.evaluate(crd, {"size": 2, "label": "red"})[0] == 0


def test_a_transition_rule_requires_an_old_object(author: Author) -> None:
    crd = definition([{"rule": "self.size >= oldSelf.size", "message": "never less"}], size=SIZE)
    code, out, _ = author.evaluate(crd, {"size": 1})
    assert (code, out) == (0, "0 evaluations: cost 0 of 10000000\n")
    code, out, _ = author.evaluate(crd, {"size": 1}, {"size": 2})
    assert code == 1
    assert "message: never less" in out
    assert author.evaluate(crd, {"size": 3}, {"size": 2})[0] == 0


def test_the_object_is_defaulted_and_pruned_as_by_a_write(author: Author) -> None:
    crd = definition([{"rule": "self.size == 4"}], size={**SIZE, "default": 4})
    assert author.evaluate(crd, {"unknown": 1})[0] == 0


SECOND_OPINIONS = {
    "times": ({"type": "string", "format": "date-time"}, "self.x > timestamp('2020-01-01T00:00:00Z')",
              "2021-01-01T00:00:00Z", "agrees"),
    "durations": ({"type": "string", "format": "duration"}, "self.x < duration('1h')", "5m", "agrees"),
    "maps": ({"type": "object", "additionalProperties": {"type": "integer"}}, "self.x.all(k, self.x[k] > 0)",
             {"a": 1}, "agrees"),
    "names that are escaped": ({"type": "object", "properties": {"a-b": SIZE}}, "self.x.a__dash__b == 1", {"a-b": 1},
                               "agrees"),
    "what only Kubernetes has": ({"type": "string"}, "isURL(self.x)", "https://a", "cannot say: "),
    # Its lists count from the end.
    "another reading": ({"type": "array", "items": SIZE}, "self.x[-1] == 2", [1, 2], "disagrees: true"),
}  # fmt: skip


@pytest.mark.parametrize("case", SECOND_OPINIONS)
def test_differences_from_cel_python_are_shown(author: Author, case: str) -> None:
    schema, rule, value, opinion = SECOND_OPINIONS[case]
    _, out, _ = author.evaluate(definition([{"rule": rule}], x=schema), {"x": value})
    assert f"cel-python: {opinion}" in out
    assert "celpy" not in out


def test_cel_python_is_used_on_request_only(author: Author) -> None:
    crd = definition([{"rule": "self.size > 0"}], size=SIZE)
    assert "cel-python" not in author.check(crd, "--no-second-opinion")[1]
    assert "cel-python" not in author.evaluate(crd, {"size": 1}, None, "Order", "--no-second-opinion")[1]


@pytest.mark.parametrize(
    "spec, kind, why",
    [
        ({"size": "x"}, "Order", "the object does not fit the schema: spec.size: Invalid value"),
        ({"size": 1}, "Other", "Other is not of orders.shop.example.com in any version"),
    ],
)
def test_an_object_of_another_kind_is_refused_in_one_line(author: Author, spec: Any, kind: str, why: str) -> None:
    code, out, err = author.evaluate(definition([{"rule": "self.size > 0"}], size=SIZE), spec, None, kind)
    assert (code, out) == (1, "")
    assert err.startswith("registry: ")
    assert why in err


def test_rules_of_an_invalid_definition_are_not_evaluated(author: Author) -> None:
    code, _, err = author.evaluate(definition([{"rule": "self.size"}], size=SIZE), {"size": 1})
    assert code == 1
    assert "the definition is refused" in err
