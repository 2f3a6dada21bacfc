"""Numbers of JSON as they were written: quantities keep their digits and exponent, and errors quote the literal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS
from tests.application import shares_application, shares_tenant

pytestmark = [shares_application, shares_tenant]

CORE = "/api/v1/namespaces/default"
# Literal: the amount that is stored.
AMOUNTS = {
    "1e3": "1e3",
    "1E+2": "100",
    "12e5": "1200e3",
    "1.50": "1500m",
    "2.000": "2",
    "0.0005": "1m",
    "9223372036854775807": "9223372036854775807",
    "9223372036854775808": "9223372036854775808",
    "123456789012345678901": "123456789012345678901",
}


@pytest.mark.parametrize("literal", AMOUNTS)
async def test_amounts_are_read_from_the_literal(api: Client, literal: str) -> None:
    quota = (
        f'{{"apiVersion":"v1","kind":"ResourceQuota","metadata":{{"name":"a"}},"spec":{{"hard":{{"cpu":{literal}}}}}}}'
    )
    created = (await api.post(f"{CORE}/resourcequotas?dryRun=All", quota)).ok(201)
    assert created["spec"]["hard"]["cpu"] == AMOUNTS[literal]
    quoted = quota.replace(literal, f'"{literal}"')
    assert (await api.post(f"{CORE}/resourcequotas?dryRun=All", quoted)).ok(201)["spec"] == created["spec"]


async def test_amounts_of_an_update_and_of_a_limit_range(api: Client) -> None:
    limits: dict[str, Any] = {
        "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"},
        "spec": {"limits": [{"type": "Container", "max": {"memory": 1}}]},
    }  # fmt: skip
    (await api.post(f"{CORE}/limitranges", limits)).ok(201)
    body = json.dumps(limits).replace('"memory": 1', '"memory": 18446744073709551617, "cpu": 2e3, "cpu": 3e3')
    answer = await api.put(f"{CORE}/limitranges/a", body)
    assert answer.ok(200)["spec"]["limits"][0]["max"] == {"cpu": "3e3", "memory": "18446744073709551617"}
    assert answer.warnings == ['duplicate field "spec.limits[0].max.cpu"']


@pytest.mark.parametrize("literal", ["1.50", "1e3", "1E2", "123456789012345678901", "-0.0", "1.0"])
async def test_errors_quote_the_literal(api: Client, literal: str) -> None:
    secret = f'{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"a","generation":{literal}}}}}'
    status = failure(await api.post(f"{CORE}/secrets", secret), 400, "BadRequest")
    assert f"cannot unmarshal number {literal} into Go struct field ObjectMeta.metadata.generation" in status["message"]
    service = f'{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"a"}},"spec":{{"ports":[{{"port":1,"targetPort":{literal}}}]}}}}'
    status = failure(await api.post(f"{CORE}/services", service), 400, "BadRequest")
    assert (
        f"cannot unmarshal number {literal} into Go struct field ServicePort.spec.ports.targetPort of type int32"
        in status["message"]
    )


@pytest.mark.parametrize(
    "members, fault",
    {
        "a text": ('"metadata":{"name":1e400}', "number into Go struct field ObjectMeta.metadata.name of type string"),
        "an integer": (
            '"metadata":{"name":"a","generation":-1e400}',
            "number -1e400 into Go struct field ObjectMeta.metadata.generation of type int64",
        ),
        "a struct": ('"metadata":1e400', "number into Go struct field Secret.metadata of type v1.ObjectMeta"),
    }.values(),
)
async def test_numbers_beyond_float64(api: Client, members: str, fault: str) -> None:
    secret = f'{{"apiVersion":"v1","kind":"Secret",{members}}}'
    status = failure(await api.post(f"{CORE}/secrets", secret), 400, "BadRequest")
    assert status["message"] == f'Secret in version "v1" cannot be handled as a Secret: json: cannot unmarshal {fault}'


@pytest.mark.parametrize("literal", ["1e400", "9" * 5000])
async def test_a_number_beyond_float64_in_an_unknown_field_is_dropped(api: Client, literal: str) -> None:
    secret = f'{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"a"}},"spec":{literal}}}'
    answer = await api.post(f"{CORE}/secrets?dryRun=All", secret)
    assert "spec" not in answer.ok(201)
    assert answer.warnings == ['unknown field "spec"']


async def test_no_infinite_number_is_stored(api: Client) -> None:
    schema = '{"type":"object","properties":{"a":{"type":"number","default":1e400}}}'
    version = f'{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}'
    names = '{"plural":"as","kind":"A"}'
    spec = f'{{"group":"example.com","scope":"Cluster","names":{names},"versions":[{version}]}}'
    kind = '"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"'
    body = f'{{{kind},"metadata":{{"name":"as.example.com"}},"spec":{spec}}}'
    answer = await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    assert "cannot unmarshal number 1e400" in failure(answer, 400, "BadRequest")["message"]


async def test_a_ratio_of_amounts_beyond_float64(api: Client) -> None:
    bounds = {"min": {"cpu": "1"}, "max": {"cpu": "9" * 400}, "maxLimitRequestRatio": {"cpu": "9" * 400}}
    limits = {"metadata": {"name": "ratio"}, "spec": {"limits": [{"type": "Container", **bounds}]}}
    body = {"apiVersion": "v1", "kind": "LimitRange", **limits}
    (await api.post(f"{CORE}/limitranges?dryRun=All", body)).ok(201)


@pytest.mark.parametrize("literal", ["-9223372036854775809", "-9223372036854775808.0", "9223372036854775808"])
async def test_integers_beyond_64_bits_are_refused_in_metadata_of_custom_resources(api: Client, literal: str) -> None:
    obj = f'{{"apiVersion":"test.example.com/v1","kind":"Widget","metadata":{{"name":"a","generation":{literal}}}}}'
    status = failure(await api.post(WIDGETS, obj), 400, "BadRequest")
    shown = "-9223372036854776000" if literal.startswith("-") else "9223372036854776000"
    assert (
        f"cannot unmarshal number {shown} into Go struct field ObjectMeta.generation of type int64" in status["message"]
    )


@pytest.mark.parametrize(
    ("literal", "shown"),
    [
        ("-9223372036854775808.0", "-9223372036854776000"),
        ("-9223372036854775809", "-9223372036854776000"),
        ("9223372036854775808", "9223372036854775808"),  # of 64 bits without a sign
        ("1.5", "1.5"),
        ("1e21", "1e+21"),
    ],
)
async def test_integers_beyond_64_bits_in_yaml(api: Client, literal: str, shown: str) -> None:
    yaml = "application/yaml"
    obj = f"metadata: {{name: a, generation: {literal}}}"
    message = failure(await api.post(f"{CORE}/configmaps", obj, content_type=yaml), 400, "BadRequest")["message"]
    assert f"number {shown} into Go struct field ObjectMeta.metadata.generation of type int64" in message
    options = f"gracePeriodSeconds: {literal}"
    message = failure(await api.delete(f"{CORE}/configmaps/a", options, content_type=yaml), 400, "BadRequest")[
        "message"
    ]
    assert f"number {shown} into Go struct field DeleteOptions.gracePeriodSeconds of type int64" in message
