"""Each rule of the documentation's tables on CRD validation rules, on objects that it accepts and refuses.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
"""

from __future__ import annotations

from typing import Any

import pytest

from registry.cel.rules.check import check_rules
from registry.cel.rules.rules import compile_rules
from registry.schema.model import from_json

Json = dict[str, Any]

INTEGER: Json = {"type": "integer"}
TEXT: Json = {"type": "string", "maxLength": 100}
TEXTS: Json = {"type": "array", "maxItems": 10, "items": TEXT}
SET: Json = TEXTS | {"x-kubernetes-list-type": "set"}


def an_object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def a_map(values: Json) -> Json:
    return {"type": "object", "maxProperties": 10, "additionalProperties": values}


def a_list_map(key: str, /, **properties: Json) -> Json:
    return {
        "type": "array",
        "maxItems": 10,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
        "items": an_object(**properties),
    }


REPLICAS = an_object(minReplicas=INTEGER, replicas=INTEGER, maxReplicas=INTEGER)
DATES = an_object(
    created={"type": "string", "format": "date-time"},
    expired={"type": "string", "format": "date-time"},
    ttl={"type": "string", "format": "duration"},
)
ENVIRONMENT = an_object(envars=a_list_map("name", name=TEXT, value=TEXT))
WIDGETS = an_object(widgets=a_list_map("key", key=TEXT, foo=INTEGER))
DETAILS = an_object(names=SET, details=a_map(TEXT))
CLUSTERS = an_object(primary=TEXT, clusters=a_list_map("name", name=TEXT))

RULES = [
    (
        "self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
        REPLICAS,
        {"minReplicas": 1, "replicas": 2, "maxReplicas": 3},
        {"minReplicas": 0, "replicas": 20, "maxReplicas": 10},
    ),
    (
        "'Available' in self.stateCounts",
        an_object(stateCounts=a_map(INTEGER)),
        {"stateCounts": {"Available": 1}},
        {"stateCounts": {"Gone": 1}},
    ),
    (
        "(size(self.list1) == 0) != (size(self.list2) == 0)",
        an_object(list1=TEXTS, list2=TEXTS),
        {"list1": [], "list2": ["a"]},
        {"list1": ["a"], "list2": ["b"]},
    ),
    (
        "!('MY_KEY' in self.map1) || self.map1['MY_KEY'].matches('^[a-zA-Z]*$')",
        an_object(map1=a_map(TEXT)),
        {"map1": {"MY_KEY": "abc"}},
        {"map1": {"MY_KEY": "123"}},
    ),
    (
        "self.envars.filter(e, e.name == 'MY_ENV').all(e, size(e.value) > 0)",
        ENVIRONMENT,
        {"envars": [{"name": "MY_ENV", "value": "v"}]},
        {"envars": [{"name": "MY_ENV", "value": ""}]},
    ),
    (
        "has(self.expired) && self.created + self.ttl < self.expired",
        DATES,
        {"created": "2024-01-01T00:00:00Z", "ttl": "1h", "expired": "2024-01-01T02:00:00Z"},
        {"created": "2024-01-01T00:00:00Z", "ttl": "3h", "expired": "2024-01-01T02:00:00Z"},
    ),
    ("self.health.startsWith('ok')", an_object(health=TEXT), {"health": "ok, really"}, {"health": "ko"}),
    (
        "self.widgets.exists(w, w.key == 'x' && w.foo < 10)",
        WIDGETS,
        {"widgets": [{"key": "y", "foo": 20}, {"key": "x", "foo": 5}]},
        {"widgets": [{"key": "x", "foo": 10}]},
    ),
    (
        "type(self.f) == string ? self.f == '99%' : self.f == 42",
        an_object(f={"x-kubernetes-int-or-string": True}),
        {"f": "99%"},
        {"f": "42"},
    ),
    (
        "type(self.f) == string ? self.f == '99%' : self.f == 42",
        an_object(f={"x-kubernetes-int-or-string": True}),
        {"f": 42},
        {"f": 99},
    ),
    (
        "self.set1.all(e, !(e in self.set2))",
        an_object(set1=SET, set2=SET),
        {"set1": ["a"], "set2": ["b"]},
        {"set1": ["a", "b"], "set2": ["b"]},
    ),
    (
        "size(self.names) == size(self.details) && self.names.all(n, n in self.details)",
        DETAILS,
        {"names": ["a"], "details": {"a": "x"}},
        {"names": ["a"], "details": {"b": "x"}},
    ),
    (
        "size(self.clusters.filter(c, c.name == self.primary)) == 1",
        CLUSTERS,
        {"primary": "a", "clusters": [{"name": "a"}, {"name": "b"}]},
        {"primary": "c", "clusters": [{"name": "a"}]},
    ),
    (
        "self.components['Widget'].priority < 10",
        an_object(components=a_map(an_object(priority=INTEGER))),
        {"components": {"Widget": {"priority": 1}}},
        {"components": {"Widget": {"priority": 10}}},
    ),
    (
        "self.values.all(value, value >= 0 && value < 100)",
        an_object(values={"type": "array", "maxItems": 10, "items": INTEGER}),
        {"values": [0, 99]},
        {"values": [0, 100]},
    ),
    ("self.__namespace__ > 0", an_object(namespace=INTEGER), {"namespace": 1}, {"namespace": 0}),
    ("self.x__dash__prop > 0", an_object(**{"x-prop": INTEGER}), {"x-prop": 1}, {"x-prop": 0}),
    ("self.redact__underscores__d > 0", an_object(redact__d=INTEGER), {"redact__d": 1}, {"redact__d": 0}),
]

ROOT_RULES = [
    ("self.metadata.name.startsWith(self.prefix)", an_object(prefix=TEXT), {"prefix": "my-"}, {"prefix": "your-"}),
    (
        "self.status.actual <= self.spec.maxDesired",
        an_object(spec=an_object(maxDesired=INTEGER), status=an_object(actual=INTEGER)),
        {"spec": {"maxDesired": 5}, "status": {"actual": 5}},
        {"spec": {"maxDesired": 5}, "status": {"actual": 6}},
    ),
]

TRANSITIONS = [
    ("self.foo == oldSelf.foo", an_object(foo=INTEGER), {"foo": 1}, {"foo": 1}, {"foo": 2}),
    ("oldSelf != 'bar' || self == 'bar'", TEXT, "bar", "bar", "other"),
    ("!has(oldSelf.field) || has(self.field)", an_object(field=TEXT), {"field": "a"}, {"field": "b"}, {}),
    ("self.all(element, element in oldSelf)", SET, ["a", "b"], ["b"], ["b", "c"]),
    ("oldSelf != 'X' || self in ['A', 'B']", TEXT, "X", "A", "Y"),
    ("self >= oldSelf", INTEGER, 5, 6, 4),
    ("!(self == 'high' && oldSelf == 'low') && !(self == 'low' && oldSelf == 'high')", TEXT, "low", "medium", "high"),
]


@pytest.mark.parametrize("rule, schema, good, bad", [pytest.param(*row, id=f"{row[0]} {row[2]}") for row in RULES])
def test_rules(rule: str, schema: Json, good: Any, bad: Any) -> None:
    root = an_object(spec=schema | {"x-kubernetes-validations": [{"rule": rule}]})
    assert check_rules(root, "schema") == []
    rules = compile_rules(from_json(root))
    assert rules.validate({"spec": good}) == []
    assert [error.message() for error in rules.validate({"spec": bad})] == [f"spec: Invalid value: failed rule: {rule}"]


@pytest.mark.parametrize("rule, schema, good, bad", [pytest.param(*row, id=row[0]) for row in ROOT_RULES])
def test_rules_of_the_root(rule: str, schema: Json, good: Json, bad: Json) -> None:
    root = schema | {"x-kubernetes-validations": [{"rule": rule}]}
    assert check_rules(root, "schema") == []
    rules = compile_rules(from_json(root))
    assert rules.validate({"metadata": {"name": "my-own"}} | good) == []
    assert [error.message() for error in rules.validate({"metadata": {"name": "my-own"}} | bad)] == [
        f"<nil>: Invalid value: failed rule: {rule}"
    ]


@pytest.mark.parametrize("rule, schema, old, good, bad", [pytest.param(*row, id=row[0]) for row in TRANSITIONS])
def test_transitions(rule: str, schema: Json, old: Any, good: Any, bad: Any) -> None:
    root = an_object(spec=schema | {"x-kubernetes-validations": [{"rule": rule}]})
    assert check_rules(root, "schema") == []
    rules = compile_rules(from_json(root))
    assert rules.validate({"spec": good}, {"spec": old}) == []
    assert [error.detail for error in rules.validate({"spec": bad}, {"spec": old})] == [f"failed rule: {rule}"]
    assert rules.validate({"spec": bad}) == []
