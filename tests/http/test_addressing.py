"""How tenants are addressed: by path and by host name; unknown names are not found."""

from __future__ import annotations

import time

import pytest

from registry.http.middleware.tenancy import HostPattern, tenant_in_path
from registry.http.request_info import parse_query, request_info
from registry.store.errors import TenantNotFound
from tests.api.client import Client
from tests.api.errors import failure

NAMESPACES = "api/v1/namespaces"


HOSTILE = [
    "",
    "%2F",
    "a%2Fb",
    "..",
    "%2e%2e",
    "default%2F",
    "default%00",
    "a.b",
    "DEFAULT",
    "Default",
    "d%C3%A9fault",
    "%64efault",
    "default%20",
    "**",
    "*x",
    "*.nowhere",
    "-",
    "x" * 64,
    "system%2Fdefault",
    "%",
    "%zz",
    "default;x",
    "default:443",
]


async def test_hostile_tenant_names_are_not_found(api: Client, caplog: pytest.LogCaptureFixture) -> None:
    for name in HOSTILE:
        for rest in ("/apis", f"/{NAMESPACES}/default", "/version", "/x"):
            answer = await api.get(f"/clusters/{name}{rest}")
            assert failure(answer, 404, "NotFound")["message"] == "the tenant does not exist", name
    assert [record for record in caplog.records if record.name == "registry.requests"] == [], "it is no trouble of ours"


async def test_anonymous_requests_cannot_discover_tenants(api: Client) -> None:
    nobody = api.with_token("")
    there = {}
    for rest in ("/version", "/version/", "/healthz", "/readyz", "/livez", "/api", "/apis", f"/{NAMESPACES}", "/x"):
        for method in ("GET", "POST"):
            answer = await nobody.request(method, f"/clusters/default{rest}")
            there[method, rest] = (answer.code, answer.text)
    assert there["GET", "/version"][0] == 200
    assert there["GET", "/apis"][0] == 403
    for name in ("nosuch", "..", "DEFAULT", "a.b"):
        for (method, rest), expected in there.items():
            answer = await nobody.request(method, f"/clusters/{name}{rest}")
            assert (answer.code, answer.text) == expected, (method, name, rest)
    # Nor which domains.
    (
        await api.of_tenant("system").post(
            "/apis/tenancy.registry/v1/tenants",
            {
                "apiVersion": "tenancy.registry/v1",
                "kind": "Tenant",
                "metadata": {"name": "one"},
                "spec": {"domain": "shop"},
            },
        )
    ).ok(201)
    answers = [await nobody.of_tenant(name).get(f"/{NAMESPACES}") for name in ("*.shop", "*.nowhere")]
    failure(answers[0], 403, "Forbidden")
    assert answers[0].text == answers[1].text


async def test_unknown_paths(api: Client) -> None:
    for path in ("/clusters/default/../system/api/v1/namespaces", "/clusters/default//api", "/clusters", "/clusters/"):
        assert (await api.get(path)).code == 404, path


async def test_a_tenant_by_its_path(api: Client) -> None:
    assert (await api.get(f"/clusters/default/{NAMESPACES}/default")).ok()["metadata"]["name"] == "default"


@pytest.mark.parametrize("path", ["/", "//", "/livez", "/livez/", "//api", "/apis//", "/apis/a/v1/bs/c/d/"])
def test_a_path_of_a_tenant_keeps_its_slashes(path: str) -> None:
    info = request_info("GET", f"/clusters/acme{path}")
    assert (info.tenant, info._replace(tenant="")) == ("acme", request_info("GET", path))


async def test_paths_of_a_tenant_are_answered_as_bare_ones(api: Client) -> None:
    for path in (
        "/livez/",
        "/openapi/v2/",
        "/openapi/v3/",
        "/apis/apiextensions.k8s.io/",
        "/version/",
        "/api/v1/",
        "//api",
    ):
        answers = [await api.get(f"{prefix}{path}") for prefix in ("", "/clusters/default")]
        assert answers[0].code == answers[1].code, path


@pytest.mark.parametrize(
    "pattern, host, named, tenant",
    [
        ("", b"acme.example.com", "", ""),
        ("", b"acme.example.com", "b", "b"),
        ("{tenant}.example.com", b"acme.example.com", "", "acme"),
        ("{tenant}.example.com", b"ACME.Example.com:6443", "", "acme"),
        ("{tenant}.example.com", b"acme.example.com.", "", "acme"),
        ("{tenant}.example.com", b"acme.example.com", "acme", "acme"),
        ("{tenant}.example.com", b"example.com", "b", "b"),
        ("{tenant}.example.com", b"[::1]:6443", "", ""),
        ("{tenant}.example.com", b"127.0.0.1:6443", "", ""),
        ("{tenant}.example.com", b"a.b.example.com", "", "a.b"),  # which is no tenant's name
        ("{tenant}.example.com", b".example.com", "", "/"),
        ("{tenant}.example.com", b"", "", ""),
    ],
)
def test_host_names(pattern: str, host: bytes, named: str, tenant: str) -> None:
    assert HostPattern(pattern).tenant_of(host, named) == tenant


def test_the_host_of_a_tenant_does_not_serve_another() -> None:
    with pytest.raises(TenantNotFound):
        HostPattern("{tenant}.example.com").tenant_of(b"acme.example.com", "other")


@pytest.mark.parametrize(
    "raw, tenant",
    [
        (b"/clusters/acme/api/v1/namespaces/a%20b", "acme"),
        (b"//clusters/acme/a%20b", "acme"),
        (b"/clusters/ac%6De/api", "/"),
        (b"/clusters/a%2Fb/api", "/"),
    ],
)
def test_names_are_not_normalized(raw: bytes, tenant: str) -> None:
    named = "acme" if b"a%2F" not in raw else "a"
    assert tenant_in_path(raw, named) == tenant


@pytest.mark.parametrize(
    "path, namespace",
    [
        pytest.param("/api/v1/namespaces", "", id="all"),
        pytest.param("/api/v1/namespaces/a", "a", id="one"),
        pytest.param("/api/v1/namespaces/a/status", "a", id="its status"),
        pytest.param("/api/v1/namespaces/b/namespaces", "b", id="all in another"),
        pytest.param("/api/v1/namespaces/b/namespaces/a", "b", id="one in another"),
        pytest.param("/api/v1/namespaces?fieldSelector=metadata.name=a", "", id="a list of one"),
    ],
)
def test_the_namespace_of_a_request_for_namespaces(path: str, namespace: str) -> None:
    path, _, query = path.partition("?")
    assert request_info("GET", path, query.encode()).attributes().namespace == namespace


@pytest.mark.parametrize(
    "path, name",
    [
        ("/api/v1/namespaces/x/configmaps", "a"),
        ("/api/v1/watch/namespaces/x/configmaps", ""),
        ("/api/v1/configmaps", "a"),
    ],
)
def test_the_name_that_a_list_is_authorized_as_of(path: str, name: str) -> None:
    """Follows apiserver pkg/endpoints/request/requestinfo.go: not if the path has the verb."""
    assert request_info("GET", path, b"watch=1&fieldSelector=metadata.name%3Da").attributes().name == name


@pytest.mark.parametrize(
    "method, path, verb, namespace, name",
    [
        ("GET", "/api/v1//scale", "get", "", "scale"),
        ("POST", "/api/v1//scale", "create", "", "scale"),
        ("DELETE", "/apis/a.io/v1//b", "delete", "", "b"),
        ("GET", "/api/v1///scale", "list", "", ""),
        ("GET", "/api/v1/namespaces/x//a", "get", "x", "a"),
        ("GET", "/api/v1/watch//a", "watch", "", "a"),
        ("GET", "/api/v1/proxy///a", "proxy", "", ""),
    ],
)
def test_a_resource_without_a_name_is_authorized_as_a_resource(
    method: str, path: str, verb: str, namespace: str, name: str
) -> None:
    found = request_info(method, path).attributes()
    assert (found.is_resource, found.resource) == (True, "")
    assert (found.verb, found.namespace, found.name) == (verb, namespace, name)


async def test_a_resource_without_a_name_needs_rights(api: Client) -> None:
    """Every user may read the paths below /api, which discovery needs."""
    for method, verb in (("GET", "get"), ("PUT", "update")):
        answer = await api.request(method, "/api/v1//scale", headers={"impersonate-user": "jane"})
        refusal = failure(answer, 403, "Forbidden")
        assert refusal["message"] == (
            f'forbidden: User "jane" cannot {verb} resource "" in API group "" at the cluster scope'
        )
        assert refusal["details"] == {"name": "scale"}
        for path in ("/api/v1//scale", "/api/v1/proxy///a"):
            assert (await api.request(method, path)).code == 404, path


def test_an_empty_tenant_name_is_not_the_default_tenant() -> None:
    assert request_info("GET", "/clusters//api/v1").tenant == "/"
    assert request_info("GET", "/api/v1").tenant == ""


def test_many_escapes_are_decoded_in_no_time() -> None:
    """A hundred requests of 60 kB, without a credential, held the event loop for a second."""
    raw = b"labelSelector=" + b"%2C" * 20_000
    began = time.process_time()
    for _ in range(20):
        assert parse_query(raw) == {"labelSelector": ["," * 20_000]}
    assert time.process_time() - began < 0.08
    assert parse_query(b"a=%zz&b=1&c=%4&a=%41+%2B&;d&e%=1") == {"b": ["1"], "a": ["A +"]}
    assert parse_query("a=\N{SNOWMAN}".encode()) == {"a": ["\N{SNOWMAN}"]}
