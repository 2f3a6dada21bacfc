"""Content negotiation over the whole path: the forms of answers, and the statuses of those that cannot be had."""

from __future__ import annotations

import pytest
import yaml

from tests.api.client import PARTIAL, PARTIAL_LIST, Client
from tests.api.errors import failure, status_shape
from tests.api.widgets import NAMESPACES, WIDGETS, make, widget

A = f"{WIDGETS}/a"


async def test_yaml_out(api: Client) -> None:
    [made] = await make(api, "a", size=1)
    answer = await api.get(A, accept="application/yaml")
    assert answer.header("content-type") == "application/yaml"
    shown = yaml.load(answer.body, yaml.BaseLoader)
    assert shown["metadata"]["uid"] == made["metadata"]["uid"]
    assert shown["spec"]["size"] == "1"


async def test_yaml_in(api: Client) -> None:
    body = "apiVersion: test.example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 0o7, color: 'yes'}\n"
    answer = await api.post(WIDGETS, body, content_type="application/yaml")
    assert answer.ok(201)["spec"] == {"size": 7, "color": "yes"}


async def test_errors_in_yaml(api: Client) -> None:
    answer = await api.get(A, accept="application/yaml")
    assert answer.header("content-type") == "application/yaml"
    status = yaml.safe_load(answer.body)
    status_shape(status, 404, "NotFound")


async def test_metadata_only(api: Client) -> None:
    await make(api, "a", size=1)
    one = (await api.get(A, accept=PARTIAL)).ok()
    assert one.keys() == {"kind", "apiVersion", "metadata"}
    many = (await api.get(WIDGETS, accept=PARTIAL_LIST)).ok()
    assert (many["kind"], many["items"][0]["kind"]) == ("PartialObjectMetadataList", "PartialObjectMetadata")


@pytest.mark.parametrize("agent, query, pretty", [
    ("curl/8", "", True), ("kubectl/1.36", "", False), ("kubectl/1.36", "?pretty=true", True),
    ("curl/8", "?pretty=false", False),
])
async def test_people_get_it_indented(api: Client, agent: str, query: str, pretty: bool) -> None:
    await make(api, "a")
    answer = await api.get(A + query, headers={"user-agent": agent})
    assert (b'\n  "kind"' in answer.body) is pretty


@pytest.mark.parametrize("accept", ["application/xml", "application/json;as=Nothing;v=v1;g=meta.k8s.io", "text/html"])
async def test_a_form_that_cannot_be_had(api: Client, accept: str) -> None:
    await make(api, "a")
    failure(await api.get(A, accept=accept), 406, "NotAcceptable")


@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("content_type", ["application/xml", "text/plain", "application/json; charset", "nonsense"])
async def test_a_body_of_an_unknown_form(api: Client, method: str, content_type: str) -> None:
    path = WIDGETS if method == "POST" else A
    answer = await api.request(method, path, widget("a"), content_type=content_type)
    failure(answer, 415, "UnsupportedMediaType")


async def test_protobuf_is_for_built_in_kinds(api: Client) -> None:
    protobuf = "application/vnd.kubernetes.protobuf"
    await make(api, "a")
    refused = await api.get(A, accept=protobuf)
    assert (refused.code, refused.header("content-type")) == (406, protobuf)
    assert refused.body.startswith(b"k8s\0")
    answer = await api.get(f"{NAMESPACES}/default", accept=f"{protobuf}, application/json")
    assert answer.code == 200
    assert answer.header("content-type") in (protobuf, "application/json")
