"""Content negotiation end to end: the formats of responses, and the statuses if none is acceptable."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from registry.codec.protobuf.envelope import decode_object
from tests.api.client import PARTIAL, PARTIAL_LIST, TABLE, Client
from tests.api.errors import failure, status_shape
from tests.api.widgets import NAMESPACES, WIDGETS, make, widget
from tests.application import shares_application

A = f"{WIDGETS}/a"


@shares_application
async def test_yaml_out(shared_api: Client) -> None:
    [made] = await make(shared_api, "a", size=1)
    answer = await shared_api.get(A, accept="application/yaml")
    assert answer.header("content-type") == "application/yaml"
    shown = yaml.load(answer.body, yaml.BaseLoader)
    assert shown["metadata"]["uid"] == made["metadata"]["uid"]
    assert shown["spec"]["size"] == "1"


@shares_application
@pytest.mark.parametrize("media", ["application/yaml", "application/vnd.kubernetes.protobuf"])
async def test_rules_of_a_user(shared_api: Client, media: str) -> None:
    reviews, review = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    expected = (await shared_api.post(reviews, review)).ok(201)["status"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in expected["nonResourceRules"]
    body = (await shared_api.post(reviews, review, accept=media)).body
    found = yaml.safe_load(body) if media == "application/yaml" else decode_object(body)
    assert found["status"]["resourceRules"] == expected["resourceRules"]
    assert found["status"]["nonResourceRules"] == expected["nonResourceRules"]


@shares_application
async def test_yaml_in(shared_api: Client) -> None:
    body = "apiVersion: test.example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 0o7, color: 'yes'}\n"
    answer = await shared_api.post(WIDGETS, body, content_type="application/yaml")
    assert answer.ok(201)["spec"] == {"size": 7, "color": "yes"}


@shares_application
async def test_errors_in_yaml(shared_api: Client) -> None:
    answer = await shared_api.get(A, accept="application/yaml")
    assert answer.header("content-type") == "application/yaml"
    status = yaml.safe_load(answer.body)
    status_shape(status, 404, "NotFound")


async def test_metadata_only(api: Client) -> None:
    await make(api, "a", size=1)
    one = (await api.get(A, accept=PARTIAL)).ok()
    assert one.keys() == {"kind", "apiVersion", "metadata"}
    many = (await api.get(WIDGETS, accept=PARTIAL_LIST)).ok()
    assert (many["kind"], many["items"][0]["kind"]) == ("PartialObjectMetadataList", "PartialObjectMetadata")


@shares_application
@pytest.mark.parametrize(
    "agent, query, pretty",
    [
        ("curl/8", "", True),
        ("kubectl/1.36", "", False),
        ("kubectl/1.36", "?pretty=true", True),
        ("curl/8", "?pretty=false", False),
    ],
)
async def test_browsers_and_curl_get_indented_json(shared_api: Client, agent: str, query: str, pretty: bool) -> None:
    await make(shared_api, "a")
    answer = await shared_api.get(A + query, headers={"user-agent": agent})
    assert (b'\n  "kind"' in answer.body) is pretty


@shares_application
@pytest.mark.parametrize(
    "accept, agent, query, pretty",
    [
        ("", "kubectl/1.36", "", False),
        ("application/json;stream=watch", "kubectl/1.36", "", False),
        ("", "curl/8", "", True),
        ("", "kubectl/1.36", "?pretty=true", True),
        ("", "curl/8", "?pretty=false", False),
        ("application/json;pretty=1", "kubectl/1.36", "", True),
        # No clause is served for a Status: upstream writes it without negotiation, and always indented.
        (TABLE, "kubectl/1.36", "?pretty=false", True),
        ("text/html", "kubectl/1.36", "", True),
    ],
)
async def test_indented_errors(shared_api: Client, accept: str, agent: str, query: str, pretty: bool) -> None:
    answer = await shared_api.get(A + query, accept=accept, headers={"user-agent": agent})
    failure(answer, 406 if accept == "text/html" else 404, "NotAcceptable" if accept == "text/html" else "NotFound")
    assert (b'\n  "status"' in answer.body) is pretty


@shares_application
async def test_the_version_is_indented(shared_api: Client) -> None:
    answer = await shared_api.get("/version")
    assert answer.ok()["major"] == "1"
    assert answer.text.startswith('{\n  "major": "1",\n')


@shares_application
@pytest.mark.parametrize("accept", ["application/xml", "application/json;as=Nothing;v=v1;g=meta.k8s.io", "text/html"])
async def test_an_unsupported_media_type(shared_api: Client, accept: str) -> None:
    await make(shared_api, "a")
    failure(await shared_api.get(A, accept=accept), 406, "NotAcceptable")


@shares_application
@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("content_type", ["application/xml", "text/plain", "application/json; charset", "nonsense"])
async def test_a_body_of_an_unsupported_media_type(shared_api: Client, method: str, content_type: str) -> None:
    path = WIDGETS if method == "POST" else A
    answer = await shared_api.request(method, path, widget("a"), content_type=content_type)
    failure(answer, 415, "UnsupportedMediaType")


async def test_protobuf_is_for_built_in_kinds(api: Client) -> None:
    protobuf = "application/vnd.kubernetes.protobuf"
    await make(api, "a")
    refused = await api.get(A, accept=protobuf)
    assert (refused.code, refused.header("content-type")) == (406, protobuf)
    assert refused.body.startswith(b"k8s\0")
    answer = await api.get(f"{NAMESPACES}/default", accept=f"{protobuf}, application/json")
    assert (answer.code, answer.header("content-type")) == (200, protobuf)


_PROTOBUF = "application/vnd.kubernetes.protobuf"
_META = ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
_ACCESS, _TOKENS = "/apis/authorization.k8s.io/v1", "/apis/authentication.k8s.io/v1"
_ASKED = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
# Answers that are objects, and stored nowhere: (path, body, Go's type).
_ANSWERS = [
    (f"{_ACCESS}/subjectaccessreviews", {"spec": {**_ASKED, "user": "a"}}, "*authorization.SubjectAccessReview"),
    (f"{_ACCESS}/selfsubjectaccessreviews", {"spec": _ASKED}, "*authorization.SelfSubjectAccessReview"),
    (f"{_ACCESS}/selfsubjectrulesreviews", {"spec": {"namespace": "a"}}, "*authorization.SelfSubjectRulesReview"),
    (
        f"{_ACCESS}/namespaces/default/localsubjectaccessreviews",
        {"spec": {**_ASKED, "user": "a"}},
        "*authorization.LocalSubjectAccessReview",
    ),
    (f"{_TOKENS}/tokenreviews", {"spec": {"token": "a"}}, "*authentication.TokenReview"),
    (f"{_TOKENS}/selfsubjectreviews", {}, "*authentication.SelfSubjectReview"),
    (f"{NAMESPACES}/default/serviceaccounts/default/token", {"spec": {}}, "*authentication.TokenRequest"),
]


@shares_application
@pytest.mark.parametrize("path, body, go_type", _ANSWERS)
async def test_reviews_and_tokens_have_the_forms_of_objects(
    shared_api: Client, path: str, body: Any, go_type: str
) -> None:
    whole = (await shared_api.post(path, body)).ok(201)
    partial = (await shared_api.post(path, body, accept=PARTIAL)).ok(201)
    assert (partial["kind"], partial.keys()) == ("PartialObjectMetadata", {"kind", "apiVersion", "metadata"})
    assert partial["metadata"].keys() == whole["metadata"].keys()
    packed = await shared_api.post(path, body, accept=_PROTOBUF + _META)
    assert (packed.code, packed.body[:4], b"PartialObjectMetadata" in packed.body) == (201, b"k8s\0", True)
    status = failure(await shared_api.post(path, body, accept=TABLE), 406, "NotAcceptable")
    assert status["message"].startswith("only the following media types are accepted: application/json, ")
    status = failure(await shared_api.post(path, body, accept=PARTIAL_LIST), 406, "NotAcceptable")
    assert status["message"] == (
        f"you requested PartialObjectMetadataList, but the requested object is not a list ({go_type})"
    )
    packed = await shared_api.post(path, body, accept=_PROTOBUF)
    assert (packed.code, decode_object(packed.body)["kind"]) == (201, whole["kind"])


@shares_application
@pytest.mark.parametrize(
    "tenant, path",
    [
        ("default", f"{A}/history"),
        ("default", f"{WIDGETS}?deleted=true"),
        ("system", "/apis/tenancy.registry/v1/tenants?usage=true"),
        ("system", "/apis/tenancy.registry/v1/tenants/default/usage"),
    ],
)
async def test_documents_of_our_own_are_json_or_yaml(shared_api: Client, tenant: str, path: str) -> None:
    await make(shared_api, "a")
    client = shared_api.of_tenant(tenant)
    for accept in (_PROTOBUF, _PROTOBUF + _META, PARTIAL, PARTIAL_LIST, TABLE):
        refused = await client.get(path, accept=accept)
        assert refused.code == 406, accept
        assert b"only the following media types are accepted: application/json, application/yaml" in refused.body
        assert (await client.get(path, accept=f"{accept},application/json")).ok()["kind"] not in ("Table", "Status")
    assert "metadata" in yaml.safe_load((await client.get(path, accept="application/yaml")).body) or "usage" in path


@shares_application
@pytest.mark.parametrize("accept", [PARTIAL_LIST, PARTIAL_LIST.replace("application/json", _PROTOBUF)])
@pytest.mark.parametrize("path", [WIDGETS, f"{NAMESPACES}/default/configmaps"])
async def test_a_watch_as_lists_ends_at_its_first_event(shared_api: Client, path: str, accept: str) -> None:
    """As in kube-apiserver, which cannot encode an event as a list; an error has a form of its own."""
    await make(shared_api, "a")
    answer = await shared_api.get(f"{path}?watch=true", accept=accept)
    assert (answer.code, answer.body) == (200, b"")
    assert answer.header("content-type") == accept.partition(";")[0] + (";stream=watch" if _PROTOBUF in accept else "")


@shares_application
@pytest.mark.parametrize("path", [A, f"{NAMESPACES}/default/configmaps/a"])
async def test_the_type_of_a_patch_is_checked_before_the_form_of_the_answer(shared_api: Client, path: str) -> None:
    answer = await shared_api.request("PATCH", path, {}, content_type="text/csv", accept="text/csv")
    failure(answer, 415, "UnsupportedMediaType")
    answer = await shared_api.request("PUT", path, {}, content_type="text/csv", accept="text/csv")
    failure(answer, 406, "NotAcceptable")


ROUTES = ["/api", "/api/v1", "/apis/rbac.authorization.k8s.io/v1", "/apis/apiregistration.k8s.io"]


@shares_application
@pytest.mark.parametrize("path", [*ROUTES, "/version", "/apis", "/apis/rbac.authorization.k8s.io", "/openapi/v2"])
async def test_the_content_type_of_a_get_of_a_document(shared_api: Client, path: str) -> None:
    for content_type in ("application/json; charset=utf-8", "text/x, application/json"):
        (await shared_api.get(path, headers={"content-type": content_type})).ok()
    for content_type in ("text/plain", "*/*", "application/*", "application/cbor", "odd"):
        answer = await shared_api.get(path, headers={"content-type": content_type})
        if path in (*ROUTES, "/version"):
            status = failure(answer, 415, "UnsupportedMediaType")
            assert (status["message"], status["details"]) == ("415: Unsupported Media Type", {})
        else:
            answer.ok()
    answer = await shared_api.get(path, headers={"content-type": "application/yaml"})
    assert answer.code == (415 if path == "/version" else 200)


@shares_application
async def test_the_media_type_of_an_empty_body_is_ignored(shared_api: Client) -> None:
    await make(shared_api, "a")
    failure(await shared_api.request("DELETE", A, {}, content_type="text/csv"), 415, "UnsupportedMediaType")
    assert (await shared_api.request("DELETE", A, content_type="text/csv")).code == 200
    assert (await shared_api.request("DELETE", WIDGETS, content_type="text/csv")).code == 200


async def test_partial_metadata_of_a_list_and_a_partial_list_of_an_object(api: Client) -> None:
    (await api.post(f"{NAMESPACES}/default/configmaps", {"metadata": {"name": "a"}})).ok(201)
    maps = f"{NAMESPACES}/default/configmaps"
    for path, found in ((WIDGETS, "*unstructured.UnstructuredList"), (maps, "*core.ConfigMapList")):
        status = failure(await api.get(path, accept=PARTIAL), 406, "NotAcceptable")
        assert status["message"] == f"you requested PartialObjectMetadata, but the requested object is a list ({found})"
    status = failure(await api.get(f"{maps}/a", accept=PARTIAL_LIST), 406, "NotAcceptable")
    assert status["message"].endswith("is not a list (*core.ConfigMap)")
    await make(api, "a", replicas=1)
    status = failure(await api.get(f"{A}/scale", accept=PARTIAL_LIST), 406, "NotAcceptable")
    assert status["message"].endswith("is not a list (*v1.Scale)")


@shares_application
@pytest.mark.parametrize("path", [WIDGETS, f"{NAMESPACES}/default/configmaps", "/apis", "/version", "/nowhere"])
async def test_an_invalid_timeout(shared_api: Client, path: str) -> None:
    message = 'invalid timeout specified in the request URL - time: invalid duration "invalid"'
    for client in (shared_api, shared_api.with_token("")):
        assert failure(await client.get(f"{path}?timeout=invalid"), 400, "BadRequest")["message"] == message
        long = failure(await client.get(f"{path}?timeout={'1s' * 200}"), 400, "BadRequest")["message"]
        assert long == message.replace('"invalid"', f'"{"1s" * 128}"...'), "each part takes time to add up"
    if path != "/nowhere":
        assert (await shared_api.get(f"{path}?timeout=30s")).code == 200
