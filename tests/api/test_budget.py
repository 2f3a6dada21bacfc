"""Superlinear work is stopped early with 413, and requests of neighbours are still served."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import pytest_asyncio
import yaml

from registry.http.bodies import BODY_LIMIT_BYTES
from tests.api.client import APPLY, JSON_PATCH, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, define, definition
from tests.application import new_tenant, shares_application

pytestmark = shares_application


HOSTILE = f"/apis/{GROUP}/v1/namespaces/default/hostiles"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
STRATEGIC = "application/strategic-merge-patch+json"
YAML = "application/yaml"

# Of processor time of this process. They took from ten seconds to minutes each; now it is a third of a second.
MAX_SECONDS = 5.0

ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def define_hostile(api: Client, spec: dict[str, Any]) -> None:
    await define(api, definition("hostiles", "Hostile", schema={"type": "object", "properties": {"spec": spec}}))


def hostile(spec: Any, name: str = "a") -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Hostile", "metadata": {"name": name}, "spec": spec}


def array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def nested(levels: int) -> dict[str, Any]:
    branch: dict[str, Any] = {"minimum": 1000}
    for _ in range(levels):
        branch = {"anyOf": [branch, branch]}
    return branch


def deep(levels: int, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {"a": leaf}
    return leaf


def deep_schema(levels: int, leaf: dict[str, Any]) -> dict[str, Any]:
    for _ in range(levels):
        leaf = {"type": "object", "properties": {"a": leaf}}
    return leaf


BOUNDS = [{"minimum": 1000 + i} for i in range(500)]
LENGTHS = [{"minLength": 1000 + i} for i in range(500)]
ONES, TEXTS = [1] * 20_000, ["a"] * 20_000
EXPENSIVE: dict[str, tuple[dict[str, Any], Any]] = {
    "anyOf": (array({"type": "integer", "anyOf": [*BOUNDS, {"maximum": 5}]}), ONES),
    "anyOf of lengths": (array({"type": "string", "anyOf": [*LENGTHS, {"maxLength": 5}]}), TEXTS),
    "anyOf, nothing holds": (array({"type": "integer", "anyOf": BOUNDS}), ONES),
    "oneOf": (array({"type": "integer", "oneOf": [*BOUNDS, {"maximum": 5}]}), ONES),
    "allOf": (array({"type": "integer", "allOf": [{"maximum": 1000 + i} for i in range(500)]}), ONES),
    "not": (array({"type": "integer", "not": {"anyOf": BOUNDS}}), ONES),
    "nested": (array({"type": "integer", "not": nested(12)}), [1] * 5000),
    "patterns": (array({"type": "string", "anyOf": [{"pattern": f"^b{i}$"} for i in range(500)]}), TEXTS),
    "objects in an enum": (
        array({**ANYTHING, "anyOf": [{"enum": [{"a": i} for i in range(5000)]}, {"required": ["b"]}]}),
        [{"b": 1}] * 20_000,
    ),
    "large objects": (
        {
            **ANYTHING,
            "not": {"anyOf": [{"properties": {"k": {"minimum": 5}}, "minProperties": 200_000} for _ in range(500)]},
        },
        {f"x{i}": i for i in range(100_000)},
    ),
    "a fault far below": (deep_schema(80, array({"type": "integer"})), deep(80, [*[1] * 300_000, "x"])),
    "defaults": (
        array({"type": "object", "properties": {"a": {"type": "string", "default": "x" * 1000}}}),
        [{}] * 190_000,
    ),
    "short defaults": (
        array({"type": "object", "properties": {f"a{i}": {"type": "integer", "default": 1} for i in range(250)}}),
        [{}] * 100_000,
    ),
}


@pytest.mark.parametrize("schema, spec", EXPENSIVE.values(), ids=EXPENSIVE)
async def test_too_much_work(api: Client, schema: dict[str, Any], spec: Any) -> None:
    await define_hostile(api, schema)
    started = time.process_time()
    answer = await api.post(HOSTILE, hostile(spec))
    assert time.process_time() - started < MAX_SECONDS
    failure(answer, 413, "RequestEntityTooLarge")
    assert (await api.get(f"{HOSTILE}/a")).code == 404


async def test_an_ordinary_schema_with_many_items(api: Client) -> None:
    await define_hostile(
        api,
        array(
            {
                "type": "object",
                "properties": {f"a{i}": {"type": "string"} for i in range(5)},
                "oneOf": [{"required": [f"a{i}"]} for i in range(5)],
            }
        ),
    )
    (await api.post(HOSTILE, hostile([{"a3": "x"}] * 20_000))).ok(201)


async def test_defaults_added_by_a_later_schema(api: Client) -> None:
    """A stored object may get large defaults when it is read: each has a budget of its own in a list."""
    items: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    await define_hostile(api, array(items))
    (await api.post(HOSTILE, hostile([{}] * 190_000, "large"))).ok(201)
    (await api.post(HOSTILE, hostile([{}], "small"))).ok(201)
    path = f"{DEFINITIONS}/hostiles.{GROUP}"
    items["properties"]["a"]["default"] = "x" * 5000
    changed = (await api.get(path)).ok()
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["items"] = items
    (await api.put(path, changed)).ok()
    failure(await api.get(f"{HOSTILE}/large"), 413, "RequestEntityTooLarge")
    failure(await api.get(HOSTILE), 413, "RequestEntityTooLarge")
    assert (await api.get(f"{HOSTILE}/small")).ok()["spec"] == [{"a": "x" * 5000}]
    failure(await api.delete(f"{HOSTILE}/large"), 413, "RequestEntityTooLarge")
    unread = {"ignoreStoreReadErrorWithClusterBreakingPotential": True}
    failure(await api.delete(f"{HOSTILE}/small", unread), 409, "Conflict")
    (await api.delete(f"{HOSTILE}/large", unread)).ok(200)
    assert len((await api.get(HOSTILE)).ok()["items"]) == 1


# -- patches


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def patched(module_application: Client) -> Client:
    """A tenant whose objects are only patched in dry runs, which do all but store the result."""
    api = await new_tenant(module_application)
    await define_hostile(api, ANYTHING)
    (await api.post(HOSTILE, hostile({"l": [1] * 900_000}, "long"))).ok(201)
    (await api.post(HOSTILE, hostile({}))).ok(201)
    (await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})).ok(201)
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": f"u{i}"} for i in range(8000)]
    metadata = {"name": "a", "ownerReferences": owners, "finalizers": [f"x.y/f{i}" for i in range(20_000)]}
    secrets = [{"name": f"s{i}"} for i in range(20_000)]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "secrets": secrets}
    (await api.post(ACCOUNTS, account)).ok(201)
    return api


@pytest.mark.parametrize(
    "operation, code",
    [
        ({"op": "add", "path": "/spec/l/0", "value": 1}, 413),
        ({"op": "remove", "path": "/spec/l/0"}, 413),
        ({"op": "move", "from": "/spec/l/0", "path": "/spec/l/-"}, 413),
        ({"op": "copy", "from": "/spec", "path": "/spec/x"}, 422),
        ({"op": "replace", "path": "/spec/l/0", "value": 2}, 200),
        ({"op": "test", "path": "/spec/l/-1", "value": 1}, 200),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) else "",
)
async def test_json_patches_of_long_lists(patched: Client, operation: dict[str, Any], code: int) -> None:
    started = time.process_time()
    answer = await patched.patch(f"{HOSTILE}/long?dryRun=All", [operation] * 10_000, JSON_PATCH)
    assert time.process_time() - started < MAX_SECONDS
    assert answer.code == code, answer.body[:300]


async def test_a_patch_of_3000_inserts_into_an_ordinary_list(api: Client) -> None:
    await define_hostile(api, ANYTHING)
    (await api.post(HOSTILE, hostile({"l": [1] * 20_000}))).ok(201)
    patch = [{"op": "add", "path": "/spec/l/0", "value": 1}] * 3000
    assert len((await api.patch(f"{HOSTILE}/a", patch, JSON_PATCH)).ok()["spec"]["l"]) == 23_000


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"ownerReferences": [{"uid": f"u{i}", "name": "changed"} for i in range(8000)]}},
        {"metadata": {"ownerReferences": [{"uid": f"u{i}", "$patch": "delete"} for i in range(8000)]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"x.y/f{i}" for i in range(20_000)]}},
        {"metadata": {"finalizers": [f"x.y/f{i}" for i in reversed(range(20_000))]}},
        {"secrets": [{"name": f"s{i}", "kind": "changed"} for i in range(20_000)]},
    ],
    ids=["keyed", "keyed, deleted", "primitive, deleted", "primitive, other order", "keyed by name"],
)
async def test_strategic_patches_of_long_lists(patched: Client, patch: dict[str, Any]) -> None:
    started = time.process_time()
    (await patched.patch(f"{ACCOUNTS}/a?dryRun=All", patch, STRATEGIC)).ok()
    assert time.process_time() - started < MAX_SECONDS


@pytest.mark.parametrize("body, kind", [("[]", "array"), ('"x"', "string"), ("5", "number"), ("true", "bool")])
async def test_a_strategic_patch_that_is_no_object(patched: Client, body: str, kind: str) -> None:
    status = failure(await patched.patch(f"{CONFIG_MAPS}/a", body, STRATEGIC), 400, "BadRequest")
    assert status["message"] == f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


@pytest.mark.parametrize("name", ["kind", "apiVersion"])
@pytest.mark.parametrize("value, kind", [(5, "number"), (["a"], "array"), ({"a": 1}, "object"), (True, "bool")])
async def test_a_merge_patch_to_another_type(patched: Client, name: str, value: Any, kind: str) -> None:
    for path in (f"{HOSTILE}/a", f"{CONFIG_MAPS}/a"):
        status = failure(await patched.patch(path, {name: value}), 422, "Invalid")
        assert status["message"].endswith(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {kind} "
            f"into Go struct field .{name} of type string"
        )


async def test_thousands_of_owners_of_fields(api: Client) -> None:
    await define_hostile(api, ANYTHING)
    entries = [
        {
            "manager": f"m{i}",
            "operation": "Apply",
            "apiVersion": f"{GROUP}/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {f"f:k{i}": {}}},
        }
        for i in range(8000)
    ]
    fields = {f"k{i}": 1 for i in range(50_000)}
    (await api.post(HOSTILE, {**hostile(fields), "metadata": {"name": "a", "managedFields": entries}})).ok(201)
    started = time.process_time()
    applied = hostile(dict.fromkeys(fields, 2))
    (await api.patch(f"{HOSTILE}/a?fieldManager=me&force=true", applied, APPLY)).ok()
    (await api.patch(f"{HOSTILE}/a?fieldManager=me&force=true", hostile({"k1": 2}), APPLY)).ok()
    assert time.process_time() - started < MAX_SECONDS


# -- sizes


async def test_an_object_does_not_grow_beyond_its_limit(api: Client) -> None:
    await define_hostile(api, ANYTHING)
    for part in range(4):
        answer = await api.patch(f"{HOSTILE}/a?fieldManager=m{part}", hostile({f"p{part}": "x" * 2_700_000}), APPLY)
        assert answer.code == (413 if part == 3 else 201 if part == 0 else 200), answer.body[:300]


async def test_aliases_of_long_texts(api: Client) -> None:
    await define_hostile(api, ANYTHING)
    body = (
        f"apiVersion: {GROUP}/v1\nkind: Hostile\nmetadata: {{name: a}}\nspec:\n  a: &a {'x' * 1_000_000}\n"
        f"  l: [{','.join(['*a'] * 90)}]\n"
    )
    status = failure(await api.post(HOSTILE, body.encode(), content_type=YAML), 400, "BadRequest")
    assert "yaml: document contains excessive aliasing" in status["message"]


# -- depth


@pytest.mark.parametrize("accept, query", [(YAML, ""), ("", "?pretty=true")], ids=["YAML", "pretty"])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param('{"a":' * 9000 + "1" + "}" * 9000, id="deep"),
        pytest.param("[" * 9000 + "]" * 9000, id="lists"),
        pytest.param("[" * 240 + ",".join(["1"] * 400_000) + "]" * 240, id="wide below"),
        pytest.param("[" * 240 + json.dumps("a\n" * 400_000) + "]" * 240, id="lines"),
        pytest.param("[" * 240 + json.dumps("a " * 400_000) + "]" * 240, id="words"),
    ],
)
async def test_indentation_is_bounded(api: Client, spec: str, accept: str, query: str) -> None:
    await define_hostile(api, ANYTHING)
    body = json.dumps(hostile({"x": "SPEC"})).replace('"SPEC"', spec)
    plain = (await api.post(HOSTILE, body)).body
    for path in (f"{HOSTILE}/a", HOSTILE):
        answer = await api.get(path + query, accept=accept)
        assert answer.code == 200
        assert answer.header("content-type") == (accept or "application/json")
        assert len(answer.body) < 6 * len(plain) + (1 << 20)
    assert (await api.get(f"{HOSTILE}/a", accept=accept)).code == 200


async def test_ordinary_documents_are_indented(api: Client) -> None:
    path = f"{DEFINITIONS}/widgets.{GROUP}"
    assert (await api.get(f"{path}?pretty=true")).text.startswith('{\n  "')
    found = await api.get(path, accept=YAML)
    assert found.text.startswith("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  ")
    assert yaml.safe_load(found.text)["metadata"]["name"] == f"widgets.{GROUP}"


@pytest.mark.parametrize("levels", [300, 1000, 9000])
async def test_writes_of_deep_objects(api: Client, levels: int) -> None:
    """Each of them is either made or refused; none recurses to its end."""
    await define_hostile(api, ANYTHING)
    spec = '{"a":' * levels + "1" + "}" * levels
    body = json.dumps(hostile({"x": "SPEC"})).replace('"SPEC"', spec)
    made = await api.post(HOSTILE, body)
    assert made.code == 201
    path = f"{HOSTILE}/a"
    revision = made.text.split('"resourceVersion":"')[1].split('"')[0]
    changed = body.replace('"name": "a"', f'"name": "a", "resourceVersion": "{revision}"')
    assert (await api.put(path, changed)).code == 200
    assert (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).code == 200
    assert (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).code == 200
    assert (await api.patch(path, f'[{{"op":"test","path":"/spec/x","value":{spec}}}]', JSON_PATCH)).code == 200
    assert (await api.patch(path, f'{{"spec":{{"y":{spec}}}}}')).code == 200
    assert (await api.patch(f"{path}?fieldManager=m", body, APPLY)).code in (200, 400, 409)
    assert len(body) < BODY_LIMIT_BYTES
    assert (await api.delete(path)).code == 200
