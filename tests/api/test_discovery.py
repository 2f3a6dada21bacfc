"""Discovery and OpenAPI: every resource, in every format, as soon as it is served."""

from __future__ import annotations

import gzip

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, define, definition
from tests.application import shares_application

pytestmark = shares_application

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_groups_versions_and_resources(api: Client) -> None:
    groups = (await api.get("/apis")).ok()["groups"]
    [ours] = [g for g in groups if g["name"] == GROUP]
    assert ours["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
    resources = {r["name"]: r for r in (await api.get(f"/apis/{GROUP}/v1")).ok()["resources"]}
    assert resources.keys() == {"widgets", "widgets/status", "widgets/scale"}
    assert resources["widgets"]["shortNames"] == ["wd"]
    assert resources["widgets"]["categories"] == ["all"]
    assert set(resources["widgets"]["verbs"]) == {
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    }


async def test_aggregated_discovery(api: Client) -> None:
    answer = await api.get("/apis", accept=AGGREGATED)
    assert answer.header("content-type") == AGGREGATED
    [ours] = [g for g in answer.ok()["items"] if g["metadata"]["name"] == GROUP]
    assert [r["resource"] for r in ours["versions"][0]["resources"]] == ["widgets"]
    tag = answer.header("etag")
    again = await api.get("/apis", accept=AGGREGATED, headers={"if-none-match": tag})
    assert (again.code, again.body) == (304, b"")
    await define(api, definition("gears", "Gear"))
    assert (await api.get("/apis", accept=AGGREGATED, headers={"if-none-match": tag})).code == 200


@pytest.mark.parametrize("path", ["/apis", "/openapi/v2", "/openapi/v3", f"/openapi/v3/apis/{GROUP}/v1"])
async def test_a_client_that_has_a_document_is_not_sent_it(api: Client, path: str) -> None:
    accept = AGGREGATED if path == "/apis" else "application/json"
    tag = (await api.get(path, accept=accept)).header("etag")
    for known in (tag, f"W/{tag}", f'"x", {tag}', f'{tag},"x"', "*"):
        again = await api.get(path, accept=accept, headers={"if-none-match": known})
        assert (again.code, again.body) == (304, b""), known
    for other in ('"x"', 'W/"x"', f'"{tag[1:9]}"'):
        assert (await api.get(path, accept=accept, headers={"if-none-match": other})).code == 200, other


async def test_a_long_document_is_compressed_for_clients_that_accept_it(api: Client) -> None:
    plain = await api.get("/openapi/v2")
    packed = await api.get("/openapi/v2", headers={"accept-encoding": "gzip"})
    assert packed.header("content-encoding") == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert packed.header("etag") == plain.header("etag")
    assert not (await api.get("/apis", headers={"accept-encoding": "gzip"})).header("content-encoding")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_path_with_an_empty_resource_is_not_that_of_its_version(api: Client, method: str) -> None:
    for path in ("/api/v1//namespaces", "/api/v1/namespaces/default//configmaps", "/apis/apiextensions.k8s.io/v1//x"):
        message = failure(await api.request(method, path), 404, "NotFound")["message"]
        assert message == "the server could not find the requested resource"
    answer = await api.request(method, f"/apis/{GROUP}/v1//widgets")
    assert (answer.code, answer.text.strip()) == (404, "404 page not found")


async def test_deleted_definitions_are_not_in_discovery(api: Client) -> None:
    (await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")).ok()
    groups = (await api.get("/apis")).ok()["groups"]
    assert len(groups) == len({g["name"] for g in groups})


@pytest.mark.parametrize("group", ["rbac.authorization.k8s.io", "apiregistration.k8s.io", "apiextensions.k8s.io"])
async def test_built_in_versions_precede_those_of_definitions(api: Client, group: str) -> None:
    gears = definition("gears", "Gear", group=group)
    gears["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"}
    [v1] = gears["spec"]["versions"]
    gears["spec"]["versions"] = [v1, {**v1, "name": "v2", "storage": False}, {**v1, "name": "vx", "storage": False}]
    await define(api, gears)
    listed = (await api.get(f"/apis/{group}")).ok()
    assert [v["version"] for v in listed["versions"]][:3] == ["v2", "vx", "v1"]  # as in kube-apiserver
    assert listed["preferredVersion"]["version"] == "v2"
    [aggregated] = [
        g for g in (await api.get("/apis", accept=AGGREGATED)).ok()["items"] if g["metadata"]["name"] == group
    ]
    documents = (await api.get("/openapi/v2")).ok()["paths"]
    for version, is_served in {"v1": False, "v2": True, "vx": True}.items():
        gear = {"apiVersion": f"{group}/{version}", "kind": "Gear", "metadata": {"name": f"of-{version}"}}
        path = f"/apis/{group}/{version}/namespaces/default/gears"
        assert (path.replace("default", "{namespace}") in documents) == is_served
        assert (
            "gears" in {r["name"] for r in (await api.get(f"/apis/{group}/{version}")).ok()["resources"]}
        ) == is_served
        [entry] = [v for v in aggregated["versions"] if v["version"] == version]
        assert ("gears" in {r["resource"] for r in entry["resources"]}) == is_served
        if is_served:
            (await api.post(path, gear)).ok()
            continue
        for answer in (await api.post(path, gear), await api.get(path), await api.delete(f"{path}/of-v2")):
            message = failure(answer, 404, "NotFound")["message"]
            assert message == "the server could not find the requested resource"
    assert len((await api.get(f"/apis/{group}/v2/gears")).ok()["items"]) == 2


async def test_openapi_v3_of_a_group(shared_api: Client) -> None:
    paths = (await shared_api.get("/openapi/v3")).ok()["paths"]
    url = paths[f"apis/{GROUP}/v1"]["serverRelativeURL"]
    document = (await shared_api.get(url)).ok()
    assert document["openapi"].startswith("3.")
    [schema] = [s for name, s in document["components"]["schemas"].items() if name.endswith(".Widget")]
    assert schema["properties"]["spec"]["properties"]["size"]["type"] == "integer"
    assert f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets/{{name}}/scale" in document["paths"]


async def test_openapi_v2(api: Client) -> None:
    document = (await api.get("/openapi/v2")).ok()
    assert document["swagger"] == "2.0"
    assert any(name.endswith(".Widget") for name in document["definitions"])


async def test_links_of_a_tenant_have_its_prefix(api: Client) -> None:
    paths = (await api.of_tenant("default").get("/openapi/v3")).ok()["paths"]
    assert {p["serverRelativeURL"].split("/openapi")[0] for p in paths.values()} == {"/clusters/default"}


async def test_the_hash_of_a_document_follows_its_content(shared_api: Client) -> None:
    (name, entry) = next(
        (name, entry) for name, entry in (await shared_api.get("/openapi/v3")).ok()["paths"].items() if GROUP in name
    )
    kept = await shared_api.get(entry["serverRelativeURL"])
    assert kept.ok()["openapi"] == "3.0.0"
    assert kept.header("cache-control") == "public, immutable"
    assert kept.header("expires").endswith("GMT")
    plain = await shared_api.get(f"/openapi/v3/{name}")
    assert (plain.header("cache-control"), plain.body) == ("no-cache, private", kept.body)
    old = await shared_api.get(f"/openapi/v3/{name}?hash=0123")
    assert (old.code, old.header("location")) == (301, entry["serverRelativeURL"])


@pytest.mark.parametrize(
    "path, accept, code, media_type",
    [
        pytest.param(f"/openapi/v3/apis/{GROUP}/v1", "application/*", 200, "application/json", id="v3, any"),
        pytest.param(
            f"/openapi/v3/apis/{GROUP}/v1", "text/plain, */*;q=0.1", 200, "application/json", id="v3, at last"
        ),
        pytest.param(f"/openapi/v3/apis/{GROUP}/v1", "application/yaml", 406, "", id="v3, yaml"),
        pytest.param(
            f"/openapi/v3/apis/{GROUP}/v1",
            "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
            200,
            "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
            id="v3, protobuf",
        ),
        pytest.param(f"/openapi/v3/apis/none.{GROUP}/v1", "*/*", 404, "", id="v3, none"),
        pytest.param("/openapi/v3/version", "*/*", 200, "application/json", id="v3, a page"),
        pytest.param(
            "/openapi/v3/.well-known/openid-configuration", "*/*", 200, "application/json", id="v3, well-known"
        ),
        pytest.param("/openapi/v2", "text/plain", 406, "", id="v2, text"),
        pytest.param("/openapi/v2", "application/json;q=0.1, application/yaml", 200, "application/json", id="v2, json"),
        pytest.param(
            "/openapi/v2",
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            200,
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
            id="v2, protobuf",
        ),
    ],
)
async def test_media_types_of_openapi(api: Client, path: str, accept: str, code: int, media_type: str) -> None:
    answer = await api.get(path, accept=accept)
    assert (answer.code, answer.header("content-type")) == (code, media_type)
    assert (code == 200) is bool(answer.body)


@pytest.mark.parametrize(
    "path, code, text",
    [
        ("/openapi/v2/", 404, "404 page not found\n"),
        ("/openapi/v2/x", 404, "404 page not found\n"),
        ("/openapi/v3/", 404, ""),
        ("/openapi/v3/x", 404, ""),
        *(
            (
                path,
                500,
                f'Internal Server Error: "{path}": failed to create RequestInfo: unable to determine kind and namespace '
                f"from url, {path}\n",
            )
            for path in ("/api/v1/watch", "/api/v1/watch/", "/apis/apps/v1/watch?x=1", "/api/v1/proxy")
        ),
    ],
)
async def test_paths_that_name_nothing(shared_api: Client, path: str, code: int, text: str) -> None:
    """As in kube-apiserver; those that end with a verb are refused before the client is authenticated."""
    answer = await shared_api.get(path)
    assert (answer.code, answer.text) == (code, text)
    if code == 500:
        assert (await shared_api.with_token("nonsense").get(path)).code == 500


async def test_long_addresses_are_not_quoted_whole(shared_api: Client) -> None:
    """Quoting 60 kB took 64 ms, for anybody."""
    answer = await shared_api.with_token("").get("/api/v1/watch?x=" + '"' * 60_000)
    assert (answer.code, "..." in answer.text) == (500, True)
    assert len(answer.text) < 20_000
