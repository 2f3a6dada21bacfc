"""Discovery and OpenAPI: what there is, in each form, from the moment that it is there."""

from __future__ import annotations

from tests.api.client import Client
from tests.api.widgets import DEFINITIONS, GROUP, define, definition

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


async def test_all_in_one_answer(api: Client) -> None:
    answer = await api.get("/apis", accept=AGGREGATED)
    assert answer.header("content-type") == AGGREGATED
    [ours] = [g for g in answer.ok()["items"] if g["metadata"]["name"] == GROUP]
    assert [r["resource"] for r in ours["versions"][0]["resources"]] == ["widgets"]
    tag = answer.header("etag")
    again = await api.get("/apis", accept=AGGREGATED, headers={"if-none-match": tag})
    assert (again.code, again.body) == (304, b"")
    await define(api, definition("gears", "Gear"))
    assert (await api.get("/apis", accept=AGGREGATED, headers={"if-none-match": tag})).code == 200


async def test_what_is_gone_is_not_told(api: Client) -> None:
    (await api.delete(f"{DEFINITIONS}/widgets.{GROUP}")).ok()
    groups = (await api.get("/apis")).ok()["groups"]
    assert len(groups) == len({g["name"] for g in groups})


async def test_openapi_v3_of_a_group(api: Client) -> None:
    paths = (await api.get("/openapi/v3")).ok()["paths"]
    url = paths[f"apis/{GROUP}/v1"]["serverRelativeURL"]
    document = (await api.get(url)).ok()
    assert document["openapi"].startswith("3.")
    [schema] = [s for name, s in document["components"]["schemas"].items() if name.endswith(".Widget")]
    assert schema["properties"]["spec"]["properties"]["size"]["type"] == "integer"
    assert f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets/{{name}}/scale" in document["paths"]


async def test_openapi_v2(api: Client) -> None:
    document = (await api.get("/openapi/v2")).ok()
    assert document["swagger"] == "2.0"
    assert any(name.endswith(".Widget") for name in document["definitions"])


async def test_a_tenants_links_stay_in_it(api: Client) -> None:
    paths = (await api.of_tenant("default").get("/openapi/v3")).ok()["paths"]
    assert {p["serverRelativeURL"].split("/openapi")[0] for p in paths.values()} == {"/clusters/default"}
