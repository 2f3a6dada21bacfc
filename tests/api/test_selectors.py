"""Label and field selectors: what they select, and the message of each refusal."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.api.list_options import name_in_list_options
from registry.api.selectors.fields import FieldTerm, name_of_selector, parse_field_selector
from registry.api.selectors.labels import parse_label_selector
from registry.api.selectors.requirements import SelectorError, row_test
from registry.flowcontrol.evaluation import ASIDE
from registry.store.encoding import label_element
from registry.store.labels import StoredLabels
from registry.store.types import Requirement, SelectorOperator
from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS
from tests.application import has_own_application, shares_application

OBJECTS = {
    "a": {"env": "dev", "tier": "1"},
    "b": {"env": "prod", "tier": "2", "x.example.com/y": "z"},
    "c": {"env": "test"},
    "d": {"tier": "10", "empty": ""},
    "e": {},
}


@pytest.mark.parametrize(
    "text, selected",
    [
        ("", "abcde"),
        ("env=dev", "a"),
        ("env==dev", "a"),
        ("env!=dev", "bcde"),
        ("env in (dev,prod)", "ab"),
        ("env in ( dev , prod )", "ab"),
        ("env notin (dev, prod)", "cde"),
        ("env", "abc"),
        ("!env", "de"),
        ("! env", "de"),
        ("tier>1", "bd"),
        ("tier<10", "ab"),
        ("env=prod,tier=2", "b"),
        ("env=prod, tier=2", "b"),
        ("env=prod,env=dev", ""),
        ("x.example.com/y=z", "b"),
        ("empty=", "d"),
        ("env=", ""),
        ("empty!=", "abce"),
        ("empty in (,x)", "d"),
        ("env in ()", ""),
        ("env notin ()", "abcde"),
        ("env = dev", "a"),
        ("env in (dev,dev)", "a"),
        ("env in (in,notin,dev)", "a"),
        ("in", ""),
        ("!notin", "abcde"),
        ("in in (in)", ""),
        ("tier,!env", "d"),
        ("env in (dev,,prod)", "ab"),
        ("env in (dev,)", "a"),
        ("env=dev\n", "a"),
        ("env in(dev)", "a"),
        ("env=,tier", ""),
    ],
)
def test_label_selectors(text: str, selected: str) -> None:
    selector = parse_label_selector(text)
    assert "".join(name for name, labels in OBJECTS.items() if selector.matches(labels)) == selected
    selects = row_test(selector.requirements)
    stored = {
        name: StoredLabels.of([f"{key}={value}" for key, value in labels.items()]) for name, labels in OBJECTS.items()
    }
    assert "".join(name for name, labels in stored.items() if selects(labels)) == selected


@pytest.mark.parametrize(
    "text, requirements",
    [
        ("b=2,a", (Requirement("a", SelectorOperator.EXISTS), Requirement("b", SelectorOperator.IN, ("2",)))),
        ("a in (z,y)", (Requirement("a", SelectorOperator.IN, ("y", "z")),)),
        (
            "e notin (x),c>5,!b,a!=1",
            (
                Requirement("a", SelectorOperator.NOT_IN, ("1",)),
                Requirement("b", SelectorOperator.DOES_NOT_EXIST),
                Requirement("c", SelectorOperator.GREATER_THAN, ("5",)),
                Requirement("e", SelectorOperator.NOT_IN, ("x",)),
            ),
        ),
    ],
)
def test_requirements_are_sorted_by_key(text: str, requirements: tuple[Requirement, ...]) -> None:
    assert parse_label_selector(text).requirements == requirements


_KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    "text, message",
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        (",a=b", "found ',', expected: !, identifier, or 'end of string'"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a=b,", "found '', expected: identifier after ','"),
        ("a=b,=", "found '=', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in (b) c", "found 'c', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a IN (b)", "unable to parse requirement: found 'IN', expected: in, notin, =, ==, !=, gt, lt"),
        ("a(b)", "unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!!a", "unable to parse requirement: found '!', expected: identifier"),
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a>=2", "unable to parse requirement: found '=', expected: identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (b,=", "unable to parse requirement: found '=', expected: ',', or identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be "
            "an integer",
        ),
        (
            "a>9223372036854775808",
            'unable to parse requirement: values[0]: Invalid value: "9223372036854775808": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        # A sign is no part of a label value, so negative numbers cannot be asked for.
        ("a>-5", f'unable to parse requirement: values[0][a]: Invalid value: "-5": {_VALUE}'),
        ("-a=b", f'unable to parse requirement: <nil>: Invalid value: "-a": name part {_KEY}'),
        (
            "a/b/c=d",
            f'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key {_KEY} with an '
            "optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        ),
        ("a=@", f'unable to parse requirement: values[0][a]: Invalid value: "@": {_VALUE}'),
        (
            "a=" + "v" * 64,
            f'unable to parse requirement: values[0][a]: Invalid value: "{"v" * 64}": must be no more than 63 bytes',
        ),
        (
            "a in (@,-)",
            f'unable to parse requirement: [values[0][a]: Invalid value: "-": {_VALUE}, '
            f'values[1][a]: Invalid value: "@": {_VALUE}]',
        ),
    ],
)
def test_label_refusals(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        parse_label_selector(text)
    assert raised.value.message == message
    assert (raised.value.code, raised.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    "text, terms",
    [
        ("", []),
        (",", []),
        ("metadata.name=a", [FieldTerm("metadata.name", True, "a")]),
        ("metadata.name==a", [FieldTerm("metadata.name", True, "a")]),
        ("metadata.name!=a", [FieldTerm("metadata.name", False, "a")]),
        (
            "spec.color=red,metadata.name=a",
            [FieldTerm("metadata.name", True, "a"), FieldTerm("spec.color", True, "red")],
        ),
        ("spec.color=", [FieldTerm("spec.color", True, "")]),
        (r"spec.color=a\,b\=c\\d", [FieldTerm("spec.color", True, r"a,b=c\d")]),
        ("spec.color= red ", [FieldTerm("spec.color", True, " red ")]),
        ("spec.color!==x", None),
        ("spec.color===x", None),
    ],
)
def test_field_selectors(text: str, terms: list[FieldTerm] | None) -> None:
    if terms is None:
        with pytest.raises(SelectorError, match="unescaped character in value: 61"):
            parse_field_selector(text, selectable=["spec.color"])
    else:
        assert parse_field_selector(text, selectable=["spec.color"]) == terms


@pytest.mark.parametrize(
    "text, message",
    [
        ("x", "invalid selector: 'x'; can't understand 'x'"),
        ("metadata.name=a,b", "invalid selector: 'metadata.name=a,b'; can't understand 'b'"),
        ("spec.x=1", "field label not supported: spec.x"),
        ("spec.z=1,spec.y=2", "field label not supported: spec.y"),
        (" metadata.name=a", "field label not supported:  metadata.name"),
        ("=a", "field label not supported: "),
        (r"metadata.name=\a", r"invalid field selector: invalid escape sequence: \a"),
        ("metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_field_refusals(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as raised:
        parse_field_selector(text)
    assert raised.value.message == message


def test_namespaces_of_cluster_scoped_objects() -> None:
    assert parse_field_selector("metadata.namespace=a") == [FieldTerm("metadata.namespace", True, "a")]
    with pytest.raises(SelectorError, match=r"\Afield label not supported: metadata.namespace\Z"):
        parse_field_selector("metadata.namespace=a", namespaced=False)


def test_words_of_built_in_kinds() -> None:
    with pytest.raises(SelectorError) as raised:
        parse_field_selector("metadata.uid=a", only_name_and_namespace=True)
    assert raised.value.message == (
        '"metadata.uid" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


@pytest.mark.parametrize(
    "text, labels, selected",
    [
        ("spec.color=red", ["f:spec.color=red"], True),
        ("spec.color=red", ["f:spec.color=blue"], False),
        ("spec.color=red", ["spec.color=red"], False),
        ("spec.color=", [], True),
        ("spec.color!=", [], False),
        ("spec.color!=red", [], True),
        ("spec.color!=red", ["a=b", "f:spec.color=red"], False),
        ("spec.color=a=b".replace("a=b", r"a\=b"), ["f:spec.color=a=b"], True),
    ],
)
def test_fields_of_stored_rows(text: str, labels: list[str], selected: bool) -> None:
    terms = parse_field_selector(text, selectable=["spec.color"])
    assert row_test([term.requirement() for term in terms])(StoredLabels.of(labels)) is selected


def test_many_requirements_of_many_labels_take_no_product() -> None:
    """Each event of a watch is tested: 400 searches of 60,000 labels would take a second."""
    labels = StoredLabels.of([f"label{i}=x" for i in range(60_000)])
    selects = row_test([Requirement(f"other{i}", SelectorOperator.DOES_NOT_EXIST) for i in range(400)])
    began = time.thread_time()
    assert selects(labels)
    assert time.thread_time() - began < 0.4


def test_long_values_of_fields_are_compared_as_they_are_stored() -> None:
    long = "x" * 5_000
    selects = row_test([term.requirement() for term in parse_field_selector(f"spec.a={long}", selectable=["spec.a"])])
    assert selects(StoredLabels.of([label_element(f"f:spec.a={long}")]))
    assert not selects(StoredLabels.of([label_element(f"f:spec.a={long}x")]))


@given(st.text("ab in(),!=<>\t\0notin1@é", max_size=20))
def test_arbitrary_selectors_are_parsed_or_refused(text: str) -> None:
    for parse in (parse_label_selector, parse_field_selector):
        with contextlib.suppress(SelectorError):
            parse(text)


@pytest.mark.parametrize("text", ["=", "==", "!=", ",", "=,==", ",!=,"])
def test_a_bare_operator_selects_everything(text: str) -> None:
    assert parse_field_selector(text) == []
    assert parse_field_selector(f"{text},metadata.name=a") == [FieldTerm("metadata.name", True, "a")]


@pytest.mark.parametrize("text", ["=a", "!=a", "a=", "a!="])
def test_an_operator_with_one_side_does_not(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_field_selector(text)


@shares_application
async def test_long_selectors_are_parsed_beside_the_event_loop(tenant_api: Client) -> None:
    """One of 60 kB held it for 57 ms."""
    selector = f"labelSelector=a%20in%20({','.join(['b'] * 20_000)})"
    for ask in (tenant_api.get, tenant_api.delete):
        before = ASIDE._value.get()
        assert (await ask(f"{WIDGETS}?{selector}")).ok(200)["items"] == []
        assert ASIDE._value.get() > before


@has_own_application
@pytest.mark.parametrize(
    "path",
    [
        f"{WIDGETS}?deleted=true",
        "/clusters/*/api/v1/configmaps?limit=1",
        "/clusters/system/apis/tenancy.registry/v1/tenants?usage=true",
    ],
)
async def test_long_selectors_of_other_lists_are_parsed_beside_the_event_loop(api: Client, path: str) -> None:
    selector = f"labelSelector=a%20in%20({','.join(['b'] * 20_000)})"
    if "usage" in path:
        selector = f"fieldSelector=metadata.name!%3D{'x' * 20_000}"
    before = ASIDE._value.get()
    (await api.get(f"{path}&{selector}")).ok(200)
    assert ASIDE._value.get() > before


def test_no_list_is_authorized_by_a_long_selector() -> None:
    """Requests are parsed for the name before their client is known: 120 kB took 40 ms."""
    assert name_of_selector("metadata.name=" + "x" * 1_000) == "x" * 1_000
    assert name_of_selector("metadata.name=" + r"\," * 50_000) == ""
    assert name_in_list_options({"fieldSelector": ["metadata.name=a"], "labelSelector": ["b"]}) == "a"
    assert name_in_list_options({"fieldSelector": ["metadata.name=a"], "labelSelector": ["b," * 3_000 + "b"]}) == ""


@shares_application
@pytest.mark.parametrize(
    "option, name",
    [
        ("labelSelector=b", ' "a"'),
        ("labelSelector=b&labelSelector=%3D", ' "a"'),
        ("limit=-1", ' "a"'),
        ("continue=x", ' "a"'),
        ("resourceVersion=x", ' "a"'),
        ("labelSelector=%3D", ""),
        ("labelSelector=b%20in%20(", ""),
        ("limit=x", ""),
        ("limit=", ""),
        ("limit=9223372036854775808", ""),
        ("timeoutSeconds=1.5", ""),
    ],
)
async def test_a_list_whose_options_cannot_be_decoded_is_not_authorized_by_a_name(
    shared_api: Client, option: str, name: str
) -> None:
    for verb, more in (("list", ""), ("watch", "&watch=1")):
        path = f"/api/v1/configmaps?fieldSelector=metadata.name%3Da&{option}{more}"
        status = failure(await shared_api.get(path, headers={"impersonate-user": "eve"}), 403, "Forbidden")
        assert status["message"].startswith(f'configmaps{name} is forbidden: User "eve" cannot {verb} resource')
