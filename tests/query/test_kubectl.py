"""The real kubectl: reserved label keys, field selectors, and creating a Query."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.api.widgets import widget, widgets_definition
from tests.folders import data_folder
from tests.processes import environment, wait_until
from tests.running import running_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine"),
]

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]
ORDER = "query.registry/order-by"
QUERY: dict[str, Any] = {
    "apiVersion": "query.registry/v1",
    "kind": "Query",
    "spec": {
        "group": "test.example.com",
        "resource": "widgets",
        "groupBy": [{"field": "spec.color"}],
        "aggregates": [{"name": "n", "function": "Count"}, {"name": "size", "function": "Sum", "field": "spec.size"}],
        "orderBy": "n desc",
    },
}


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """With widgets a, b and c, whose fields can be selected by."""
    with data_folder() as folder, running_server(folder / "data") as server:
        (folder / "home").mkdir()
        variables = environment(KUBECONFIG=str(server.kubeconfig), HOME=str(folder / "home"))

        def run(*arguments: str, given: Any = None) -> subprocess.CompletedProcess[str]:
            text = None if given is None else json.dumps(given)
            return subprocess.run(["kubectl", *arguments], env=variables, input=text, capture_output=True, text=True,
                                  timeout=180, check=False)  # fmt: skip

        definition = widgets_definition()
        definition["metadata"]["annotations"] = {"query.registry/fields": "*"}
        assert run("create", "-f", "-", given=definition).returncode == 0
        wait_until(lambda: run("get", "widgets").returncode == 0, "widgets are served")
        for name, size, color in (("a", 3, "red"), ("b", 1, "blue"), ("c", 2, "red")):
            done = run("create", "-f", "-", given=widget(name, size=size, color=color))
            assert done.returncode == 0, done.stderr
        yield run


NAMES: dict[str, tuple[list[str], str]] = {
    "ordered downwards": (["-l", f"{ORDER}=spec.size_desc"], "a c b"),
    "ordered by two": (["-l", f"{ORDER} in (spec.color, spec.size)"], "b c a"),
    "in chunks": (["-l", f"{ORDER}=spec.size", "--chunk-size=1"], "b c a"),
    "from the second on": (["-l", f"{ORDER}=spec.size,query.registry/offset=1"], "c a"),
    "a part of the name": (["-l", "query.registry/name-contains=b"], "b"),
    "created before": (["-l", "query.registry/before=2020-01-01"], ""),
    "a field": (["--field-selector", "spec.size=3"], "a"),
    "another value of a field": (["--field-selector", "spec.size!=3,spec.color=red"], "c"),
}


@pytest.mark.parametrize("case", NAMES)
def test_selectors_reach_the_server(kubectl: Kubectl, case: str) -> None:
    arguments, names = NAMES[case]
    done = kubectl("get", "widgets", "-o", "name", *arguments)
    assert done.returncode == 0, done.stderr
    assert [line.rpartition("/")[2] for line in done.stdout.splitlines()] == names.split()


def test_an_unknown_field_is_refused(kubectl: Kubectl) -> None:
    done = kubectl("get", "widgets", "--field-selector", "spec.sise=3")
    assert done.returncode != 0
    assert "field label not supported: spec.sise" in done.stderr


def test_a_query_is_created_and_shows_its_answer(kubectl: Kubectl) -> None:
    done = kubectl("create", "-f", "-", "-o", "json", given=QUERY)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"]["rows"] == [
        {"color": "red", "n": 2, "size": 5},
        {"color": "blue", "n": 1, "size": 1},
    ]
    shown = kubectl("create", "-f", "-", "-o", "yaml", given=QUERY)
    assert "totalRows: 2" in shown.stdout, shown.stderr
    assert kubectl("create", "-f", "-", given=QUERY).returncode == 0


def test_a_query_is_listed_and_explained(kubectl: Kubectl) -> None:
    assert "Query" in kubectl("api-resources", "--api-group=query.registry").stdout
    explained = kubectl("explain", "query.spec.aggregates.function", "--api-version=query.registry/v1")
    assert "CountDistinct" in explained.stdout, explained.stderr


def test_a_wrong_query_is_refused(kubectl: Kubectl) -> None:
    wrong = {**QUERY, "spec": {**QUERY["spec"], "filter": "object.spec.sise > 1"}}
    done = kubectl("create", "-f", "-", given=wrong)
    assert done.returncode != 0
    assert "undefined field 'sise'" in done.stderr
