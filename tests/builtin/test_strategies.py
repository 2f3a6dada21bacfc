"""The rules of built-in kinds, kind by kind: what is wrong with an object, and with a change of it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from registry.api.strategies import strategy_for
from registry.api.strategies.base import Context, ObjectDecodeError
from registry.api.strategies.builtin import TypedStrategy
from registry.authentication.user import User
from registry.builtin import definitions
from registry.store.types import DomainId, Guards, Tenant, TenantId, TenantName

Object = dict[str, Any]


def strategy_of(name: str) -> TypedStrategy:
    """By the name of a resource: `configmaps`, `events.events.k8s.io`."""
    definition = next(d for d in definitions() if d.name == name)
    strategy = strategy_for(definition, definition.versions["v1"])
    assert isinstance(strategy, TypedStrategy)
    return strategy


def new_object(name: str, **members: Any) -> Object:
    """A decoded object as the server has filled it in."""
    obj = strategy_of(name).decode({"metadata": {"name": "x", "namespace": "n"}, **members}, [])
    obj["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    return obj


def texts(name: str, **members: Any) -> list[str]:
    return [error.message() for error in strategy_of(name).validate(new_object(name, **members))]


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
TLS = "kubernetes.io/tls"

WRONG: dict[str, tuple[str, Object, list[str]]] = {
    "config map": ("configmaps", {"data": {"a.B-c_1": "v"}}, []),
    "config map, a bad key": ("configmaps", {"data": {"a b": ""}}, [f'data[a b]: Invalid value: "a b": {KEY}']),
    "config map, a dot": ("configmaps", {"data": {".": ""}}, ["data[.]: Invalid value: \".\": must not be '.'"]),
    "config map, two dots before": (
        "configmaps",
        {"binaryData": {"..a": ""}},
        ["binaryData[..a]: Invalid value: \"..a\": must not start with '..'"],
    ),
    "config map, a key twice": (
        "configmaps",
        {"data": {"a": ""}, "binaryData": {"a": ""}},
        ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
    ),
    "config map, too long": (
        "configmaps",
        {"data": {"a": "é" * 524289}},
        ["[]: Too long: may not be more than 1048576 bytes"],
    ),
    "config map, just not too long": ("configmaps", {"data": {"a": "é" * 524288}}, []),
    "secret": ("secrets", {"stringData": {"a": "v"}}, []),
    "secret, too long": (
        "secrets",
        {"stringData": {"a": "v" * 1048577}},
        ["data: Too long: may not be more than 1048576 bytes"],
    ),
    "secret, just not too long": ("secrets", {"stringData": {"a": "v" * 1048576}}, []),
    "secret of any type": ("secrets", {"type": "a b c"}, []),
    "secret, tls": ("secrets", {"type": TLS, "data": {"tls.crt": ""}}, ["data[tls.key]: Required value"]),
    "secret, basic auth": (
        "secrets",
        {"type": "kubernetes.io/basic-auth"},
        ["data[username]: Required value", "data[password]: Required value"],
    ),
    "secret, basic auth of one": ("secrets", {"type": "kubernetes.io/basic-auth", "stringData": {"password": ""}}, []),
    "secret, ssh with nothing in it": (
        "secrets",
        {"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}},
        ["data[ssh-privatekey]: Required value"],
    ),
    "secret, docker": (
        "secrets",
        {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "[]"}},
        [
            'data[.dockercfg]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array into Go value of '
            "type map[string]interface {}"
        ],
    ),
    "secret of an account": (
        "secrets",
        {"type": "kubernetes.io/service-account-token"},
        ["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
    ),
    "lease": ("leases.coordination.k8s.io", {"spec": {"holderIdentity": "", "leaseTransitions": 0}}, []),
    "lease of no time": (
        "leases.coordination.k8s.io",
        {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
        [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    "quota": ("resourcequotas", {"spec": {"hard": {"count/widgets.example.com": 1, "cpu": "1500m"}}}, []),
    "quota, a fraction of what is whole": (
        "resourcequotas",
        {"spec": {"hard": {"example.com/gpu": "0.5"}}},
        ['spec.hard[example.com/gpu]: Invalid value: "500m": must be an integer'],
    ),
    "quota, unknown": (
        "resourcequotas",
        {"spec": {"hard": {"things": 1}}},
        [
            'spec.hard[things]: Invalid value: "things": must be a standard resource type or fully qualified',
            'spec.hard[things]: Invalid value: "things": must be a standard resource for quota',
        ],
    ),
    "quota, negative": (
        "resourcequotas",
        {"spec": {"hard": {"pods": -1}}},
        ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    "quota, a scope that does not fit": (
        "resourcequotas",
        {"spec": {"hard": {"secrets": 1}, "scopes": ["BestEffort"]}},
        ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
    ),
    "quota, an invalid operator": (
        "resourcequotas",
        {"spec": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Near"}]}}},
        ['spec.scopeSelector.matchExpressions.operator: Invalid value: "Near": not a valid selector operator'],
    ),
    "limits": ("limitranges", {"spec": {"limits": [{"type": "Container", "max": {"cpu": 1}}]}}, []),
    "limits, the type twice": (
        "limitranges",
        {"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}},
        ['spec.limits[1].type: Duplicate value: "Pod"'],
    ),
    "limits, a ratio": (
        "limitranges",
        {
            "spec": {
                "limits": [{"type": "Pod", "min": {"cpu": 1}, "max": {"cpu": 2}, "maxLimitRequestRatio": {"cpu": 3}}]
            }
        },
        ['spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000'],
    ),
    "limits, what cannot be overcommitted": (
        "limitranges",
        {
            "spec": {
                "limits": [
                    {"type": "Container", "default": {"example.com/gpu": 2}, "defaultRequest": {"example.com/gpu": 1}}
                ]
            }
        },
        [
            'spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to '
            "defaultRequest value 1 in example.com/gpu"
        ],
    ),
    "event": ("events", {"involvedObject": {"namespace": "n"}}, []),
    "event of elsewhere": (
        "events",
        {"involvedObject": {"namespace": "m"}},
        ['involvedObject.namespace: Invalid value: "m": does not match event.namespace'],
    ),
    "event with a time": (
        "events",
        {
            "involvedObject": {"namespace": "m"},
            "eventTime": "2024-03-04T05:06:07.000000Z",
            "reason": "r",
            "action": "a" * 129,
            "reportingComponent": "c",
            "reportingInstance": "i",
        },
        ['action: Invalid value: "": can have at most 128 characters'],
    ),
    "new event": (
        "events.events.k8s.io",
        {"type": "Odd", "deprecatedCount": 1, "regarding": {"namespace": "n"}},
        [
            "eventTime: Required value",
            'type: Invalid value: "": has invalid value: Odd',
            'count: Invalid value: "": needs to be unset',
        ],
    ),
    "new event, a series of one": (
        "events.events.k8s.io",
        {
            "type": "Normal",
            "regarding": {"namespace": "n"},
            "reason": "r",
            "action": "a",
            "eventTime": "2024-03-04T05:06:07.000000Z",
            "reportingController": "c",
            "reportingInstance": "i",
            "series": {"count": 1},
        },
        ['series.count: Invalid value: "": should be at least 2', "series.lastObservedTime: Required value"],
    ),
    "account": ("serviceaccounts", {"secrets": [{"name": "s"}]}, []),
}


@pytest.mark.parametrize("kind, members, wrong", WRONG.values(), ids=WRONG)
def test_errors_of_new_objects(kind: str, members: Object, wrong: list[str]) -> None:
    assert texts(kind, **members) == wrong


FIXED = "field is immutable when `immutable` is set"
CHANGES: dict[str, tuple[str, Object, Object, list[str]]] = {
    "config map": ("configmaps", {"data": {"a": "1"}}, {"data": {"a": "2"}}, []),
    "immutable data": (
        "configmaps",
        {"immutable": True, "data": {"a": "1"}},
        {"immutable": True, "data": {"a": "2"}},
        [f"data: Forbidden: {FIXED}"],
    ),
    "immutability": (
        "configmaps",
        {"immutable": True},
        {"binaryData": {"a": ""}},
        [f"immutable: Forbidden: {FIXED}", f"binaryData: Forbidden: {FIXED}"],
    ),
    "becoming immutable": ("configmaps", {"data": {"a": "1"}}, {"immutable": True, "data": {"a": "2"}}, []),
    "the type of a secret": ("secrets", {"type": "a/b"}, {}, ['type: Invalid value: "Opaque": field is immutable']),
    "scopes of a quota": (
        "resourcequotas",
        {"spec": {"scopes": ["BestEffort"]}},
        {"spec": {}},
        ["spec.scopes: Invalid value: null: field is immutable"],
    ),
    "an event of the core group": (
        "events",
        {"involvedObject": {"namespace": "n"}, "reason": "a"},
        {"involvedObject": {"namespace": "n"}, "reason": "b"},
        [],
    ),
    "a new event": (
        "events.events.k8s.io",
        {"regarding": {"namespace": "n"}, "reason": "a", "note": "x"},
        {"regarding": {"namespace": "n"}, "reason": "b", "note": "y"},
        [
            'reason: Invalid value: "b": field is immutable',
            'message: Invalid value: "y": field is immutable',
            'reason: Invalid value: "b": field is immutable',  # compared twice
        ],
    ),
}


@pytest.mark.parametrize("kind, before, after, wrong", CHANGES.values(), ids=CHANGES)
def test_errors_of_updates(kind: str, before: Object, after: Object, wrong: list[str]) -> None:
    errors = strategy_of(kind).validate_update(new_object(kind, **after), new_object(kind, **before), [])
    assert [error.message() for error in errors] == wrong


DEFAULTS: dict[str, tuple[str, Object, Object]] = {
    "stringData": (
        "secrets",
        {"data": {"a": b64("1"), "b": b64("2")}, "stringData": {"a": "9"}},
        {"data": {"a": b64("9"), "b": b64("2")}, "type": "Opaque"},
    ),
    "limits of the maximum": (
        "limitranges",
        {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"memory": "1Ki"}}]}},
        {
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "max": {"cpu": "1"},
                        "min": {"memory": "1Ki"},
                        "default": {"cpu": "1"},
                        "defaultRequest": {"cpu": "1", "memory": "1Ki"},
                    }
                ]
            }
        },
    ),
    "nothing for pods": (
        "limitranges",
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
        {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
    ),
    "an empty list": ("limitranges", {"spec": {"limits": []}}, {"spec": {"limits": None}}),
    "what is always there": (
        "events",
        {},
        {
            "involvedObject": {},
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": None,
            "reportingComponent": "",
            "reportingInstance": "",
        },
    ),
    "an empty spec": ("leases.coordination.k8s.io", {}, {"spec": {}}),
    "null texts": ("configmaps", {"data": {"a": None}}, {"data": {"a": ""}}),
}


@pytest.mark.parametrize("kind, given, stored", DEFAULTS.values(), ids=DEFAULTS)
def test_stored_forms(kind: str, given: Object, stored: Object) -> None:
    finished = strategy_of(kind).finish(new_object(kind, **given))
    del finished["metadata"]
    assert finished == stored


def context() -> Context:
    return Context(Tenant(TenantId(1), TenantName("default"), DomainId(1), Guards(0, 0)), User("u"))


def test_a_lease_drops_fields_of_disabled_features() -> None:
    lease = new_object(
        "leases.coordination.k8s.io", spec={"strategy": "x", "preferredHolder": "y", "holderIdentity": "z"}
    )
    strategy_of("leases.coordination.k8s.io").prepare_for_create(lease, context())
    assert lease["spec"] == {"holderIdentity": "z"}


def test_an_account_keeps_only_the_names_of_its_secrets() -> None:
    account = new_object("serviceaccounts", secrets=[{"name": "s", "namespace": "n", "uid": "u"}, {"kind": "Secret"}])
    strategy_of("serviceaccounts").prepare_for_create(account, context())
    assert account["secrets"] == [{"name": "s"}, {}]


UNKNOWN: dict[str, tuple[str, Object, list[str]]] = {
    "by its case": ("configmaps", {"Data": {}}, ["Data"]),
    "below a list": ("limitranges", {"spec": {"limits": [{"type": "Pod", "maxi": {}}]}}, ["spec.limits[0].maxi"]),
    "in the metadata": ("configmaps", {"metadata": {"labelz": {}}}, ["metadata.labelz"]),
}


@pytest.mark.parametrize("kind, members, unknown", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_fields(kind: str, members: Object, unknown: list[str]) -> None:
    found: list[str] = []
    strategy_of(kind).decode(members, found)
    assert found == unknown


FAULTS: dict[str, tuple[str, Object, str]] = {
    "a number": (
        "configmaps",
        {"data": {"a": 1}},
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
    ),
    "a deep one": (
        "leases.coordination.k8s.io",
        {"spec": {"leaseDurationSeconds": 1.5}},
        "json: cannot unmarshal number 1.5 into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
    ),
    "base64": ("secrets", {"data": {"a": "!"}}, "illegal base64 data at input byte 0"),
}


@pytest.mark.parametrize("kind, members, why", FAULTS.values(), ids=FAULTS)
def test_bodies_that_are_not_of_their_kind(kind: str, members: Object, why: str) -> None:
    with pytest.raises(ObjectDecodeError) as caught:
        strategy_of(kind).decode(members, [])
    assert str(caught.value) == why


def test_events_are_the_same_in_both_groups() -> None:
    new = strategy_of("events.events.k8s.io")
    translation = new.translation
    assert translation is not None
    event = new.finish(
        new_object(
            "events.events.k8s.io",
            regarding={"name": "w", "kind": "W"},
            note="text",
            type="Normal",
            deprecatedCount=2,
            reportingController="c",
        )
    )
    core = translation.write(event)
    assert core["apiVersion"] == "v1"
    assert core["involvedObject"] == {"kind": "W", "name": "w"}
    assert (core["message"], core["count"], core["reportingComponent"]) == ("text", 2, "c")
    assert translation.read(core) | {"apiVersion": event.get("apiVersion")} == event | {
        "apiVersion": event.get("apiVersion")
    }
    assert dict(new.selectable(event))["involvedObject.name"] == "w"
    assert new.stored_field("regarding.name") == "involvedObject.name"
