"""What Kubernetes 1.37 changed, and what a server that emulates 1.36 does in its place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from registry import emulation
from tests.api.client import APPLY, JSON_PATCH, MERGE, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, WIDGETS, define, definition, make, widget
from tests.application import new_tenant, serving, shares_application
from tests.databases import temporary_database

pytestmark = shares_application

Json = dict[str, Any]

MIGRATIONS = "/apis/storagemigration.k8s.io/{}/storageversionmigrations"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=emulation.NAMES)
async def emulating(
    request: pytest.FixtureRequest, postgres_server: str, api_template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Client, bool]]:
    """A server of each version, and whether it is the newer one. Its tests run one after the other."""
    folder = tmp_path_factory.mktemp("emulating")
    with temporary_database(postgres_server, api_template) as url:
        async with serving(url, folder, emulate_version=request.param) as client:
            yield client, request.param == "1.37"
    emulation.emulate(emulation.DEFAULT)


@pytest_asyncio.fixture(loop_scope="module")
async def both(emulating: tuple[Client, bool]) -> tuple[Client, bool]:
    """A new tenant of each of them."""
    client, newer = emulating
    return await new_tenant(client), newer


async def test_the_reported_version(both: tuple[Client, bool]) -> None:
    api, newer = both
    found = (await api.get("/version")).ok()
    assert (found["gitVersion"], found["minor"]) == (("v1.37.0", "37") if newer else ("v1.36.2", "36"))
    assert (await api.get("/openapi/v2")).ok()["info"]["version"] == f"1.{found['minor']}"


async def test_storage_migrations_at_v1(both: tuple[Client, bool]) -> None:
    api, newer = both
    migration = {
        "apiVersion": "storagemigration.k8s.io/v1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": "m"},
        "spec": {"resource": {"group": "test.example.com", "resource": "widgets"}},
    }
    answer = await api.post(MIGRATIONS.format("v1"), migration)
    if not newer:
        failure(answer, 404, "NotFound")
        return
    made = answer.ok(201)
    assert answer.warnings == []
    again = (await api.get(MIGRATIONS.format("v1beta1") + "/m")).ok()
    assert again["apiVersion"] == "storagemigration.k8s.io/v1beta1"
    assert (again["metadata"]["uid"], again["spec"]) == (made["metadata"]["uid"], made["spec"])


# What cel-go 0.29 compiles and 0.26 does not: a rule, a spec that it accepts, and one that it refuses.
RULES = {
    "a list": ("self.list.includes('b')", {"list": ["a", "b"]}, {"list": ["a"]}),
    "one value": ("self.name.includes('b')", {"name": "b"}, {"name": "abc"}),
    "elements of other types": ("[dyn(1), dyn('b')].includes(self.name)", {"name": "b"}, {"name": "x"}),
    "numbers": ("[1, 2].includes(self.size)", {"size": 2}, {"size": 3}),
    "an escaped name": ("self.map.`a/b-c.d` == 'x'", {"map": {"a/b-c.d": "x"}}, {"map": {"a/b-c.d": "y"}}),
    "an escaped name that may be missing": ("!has(self.map.`a b`)", {"map": {"a": "x"}}, {"map": {"a b": "y"}}),
    "an escaped name of a field": ("self.`name` == 'b'", {"name": "b"}, {"name": "c"}),
}


def of_version(rule: str, newer: bool) -> str:
    """The rule as a text that only one version compiles: a process has one version, and keeps what it has compiled."""
    return f"{rule} // {newer}"


@pytest.mark.parametrize("rule, good, bad", RULES.values(), ids=RULES)
async def test_rules_with_functions_of_newer_cel_versions(
    both: tuple[Client, bool], rule: str, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    api, newer = both
    spec = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": of_version(rule, newer)}],
        "properties": {
            "list": {"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 10}},
            "name": {"type": "string", "maxLength": 10},
            "size": {"type": "integer"},
            "map": {"type": "object", "maxProperties": 10, "additionalProperties": {"type": "string", "maxLength": 10}},
        },
    }
    gears = definition("gears", "Gear", schema={"type": "object", "properties": {"spec": spec}})
    if not newer:
        status = failure(await api.post(DEFINITIONS, gears), 422, "Invalid")
        why = "unsupported syntax: '`'" if "`" in rule else "undeclared reference to 'includes'"
        assert why in status["message"]
        return
    await define(api, gears)
    path = WIDGETS.replace("widgets", "gears")
    gear = {"apiVersion": "test.example.com/v1", "kind": "Gear"}
    (await api.post(path, {**gear, "metadata": {"name": "good"}, "spec": good})).ok(201)
    failure(await api.post(path, {**gear, "metadata": {"name": "bad"}, "spec": bad}), 422, "Invalid")


async def test_numbers_are_not_durations(both: tuple[Client, bool]) -> None:
    """cel-go 0.26 has an overload for it, which fails whenever it is evaluated."""
    api, newer = both
    rules = [{"rule": of_version("self.size == 0 || duration(self.size) > duration('1s')", newer)}]
    spec = {"type": "object", "x-kubernetes-validations": rules, "properties": {"size": {"type": "integer"}}}
    gears = definition("gears", "Gear", schema={"type": "object", "properties": {"spec": spec}})
    answer = await api.post(DEFINITIONS, gears)
    if newer:
        message = failure(answer, 422, "Invalid")["message"]
        assert "found no matching overload for 'duration' applied to '(int)'" in message
    else:
        answer.ok(201)


async def test_a_table_of_no_definitions(both: tuple[Client, bool]) -> None:
    api, _ = both
    none = f"{DEFINITIONS}?labelSelector=there=none"
    table = (await api.get(none, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).ok()
    assert table["rows"] is None


async def test_an_apply_that_empties_a_map(both: tuple[Client, bool]) -> None:
    """As in 1.36: 1.37 would make it null, and refuse that."""
    api, _ = both
    limits = {"type": "object", "additionalProperties": {"type": "string"}}
    spec = {"type": "object", "properties": {"limits": limits}}
    await define(api, definition("gears", "Gear", schema={"type": "object", "properties": {"spec": spec}}))
    gear = WIDGETS.replace("widgets", "gears") + "/a?fieldManager="

    async def applied(manager: str, spec: Json) -> Json:
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": spec}
        answer: Json = (await api.patch(f"{gear}{manager}", body, APPLY)).ok()
        return answer

    await applied("one", {"limits": {"cpu": "1"}})
    await applied("two", {"limits": {}})
    assert (await applied("one", {"limits": {}}))["spec"] == {"limits": {}}
    await applied("two", {})
    assert (await applied("one", {}))["spec"] == {}


async def test_the_table_of_definitions(both: tuple[Client, bool]) -> None:
    api, newer = both
    table = (await api.get(DEFINITIONS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).ok()
    columns = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    [cells] = [row["cells"] for row in table["rows"] if row["cells"][0].startswith("widgets.")]
    if not newer:
        assert columns == [("Name", "string", 0), ("Created At", "date", 0)]
        return
    assert columns == [
        ("Name", "string", 0),
        ("Scope", "string", 0),
        ("Versions", "string", 0),
        ("Created At", "date", 0),
        ("Group", "string", 1),
        ("Kind", "string", 1),
        ("ShortNames", "string", 1),
        ("Established", "boolean", 1),
    ]
    assert cells[1:3] == ["Namespaced", "v1(storage)"]
    assert cells[3].endswith("Z")
    assert cells[4:] == ["test.example.com", "Widget", "wd", True]


async def test_no_object_is_created_while_its_definition_terminates(both: tuple[Client, bool]) -> None:
    """kube-apiserver 1.36 looks at the condition alone, which anybody who may write the status can take away."""
    api, newer = both
    (await api.post(WIDGETS, widget("a", metadata={"finalizers": ["example.com/hold"]}))).ok(201)
    name = f"{DEFINITIONS}/widgets.test.example.com"
    (await api.delete(name)).ok()
    conditions = (await api.get(name)).ok()["status"]["conditions"]
    left = [c for c in conditions if c["type"] != "Terminating"]
    (await api.patch(f"{name}/status", {"status": {"conditions": left}})).ok()
    answer = await api.post(f"{WIDGETS}?dryRun=All", widget("b"))
    if newer:
        status = failure(answer, 403, "Forbidden")
        assert "create not allowed while custom resource definition is terminating" in status["message"]
    (await api.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})).ok()


async def test_an_object_in_a_deleted_namespace_can_lose_its_finalizers(both: tuple[Client, bool]) -> None:
    """A client that may finalize a namespace can remove it before its objects are gone."""
    api, newer = both
    home, widgets = f"{NAMESPACES}/home", WIDGETS.replace("/default/", "/home/")
    (await api.post(NAMESPACES, {"metadata": {"name": "home"}})).ok(201)
    (await api.post(widgets, widget("a", metadata={"finalizers": ["example.com/hold"]}))).ok(201)
    terminating = (await api.delete(home)).ok()
    (await api.put(f"{home}/finalize", {**terminating, "spec": {"finalizers": []}})).ok()
    failure(await api.get(home), 404, "NotFound")
    (await api.delete(f"{widgets}/a")).ok()
    answer = await api.patch(f"{widgets}/a", {"metadata": {"finalizers": None}})
    if newer:
        answer.ok(200)
    else:
        assert failure(answer, 404, "NotFound")["details"]["kind"] == "namespaces"
    assert (await api.get(f"{widgets}/a")).code == (404 if newer else 200)


async def test_the_response_to_a_deletion_has_its_revision(both: tuple[Client, bool]) -> None:
    api, newer = both
    [made] = await make(api, "a")
    assert (await api.delete(f"{WIDGETS}/a?dryRun=All")).ok()["metadata"] == {}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}
    accounts = f"{NAMESPACES}/default/serviceaccounts"
    before = (await api.post(accounts, account)).ok(201)["metadata"]["resourceVersion"]
    # An object has had it for long, as recorded from 1.36; a Status has it since 1.37.
    assert int((await api.delete(f"{accounts}/s")).ok()["metadata"]["resourceVersion"]) > int(before)
    metadata = (await api.delete(f"{WIDGETS}/a")).ok()["metadata"]
    if not newer:
        assert metadata == {}
        return
    assert int(metadata["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    listed = (await api.get(WIDGETS)).ok()["metadata"]
    assert int(listed["resourceVersion"]) >= int(metadata["resourceVersion"])


BROKEN_PATCHES = {
    "an apply that is no YAML": (
        APPLY,
        b"a: [",
        "error decoding YAML: error converting YAML to JSON: yaml:",
        "error encoding patch: yaml:",
    ),
    "an apply that looks like JSON": (
        APPLY,
        b"{a: [",
        "error decoding YAML: error converting YAML to JSON: yaml:",
        "error decoding patch: error converting YAML to JSON: yaml:",
    ),
    "a merge patch that is no JSON": (MERGE, b"{", f'widgets.{GROUP} "a" not found', "invalid JSON patch"),
    "a JSON patch that is no JSON": (JSON_PATCH, b"", f'widgets.{GROUP} "a" not found', "invalid JSON patch"),
    "a number that is too large": (
        MERGE,
        b'{"spec":{"size":1e999}}',
        f'widgets.{GROUP} "a" not found',
        f'widgets.{GROUP} "a" not found',
    ),
}


@pytest.mark.parametrize("media_type, patch, older, newer", BROKEN_PATCHES.values(), ids=BROKEN_PATCHES)
async def test_malformed_patches(
    both: tuple[Client, bool], media_type: str, patch: bytes, older: str, newer: str
) -> None:
    api, is_newer = both
    answer = await api.patch(f"{WIDGETS}/a?fieldManager=m", patch, media_type)
    assert answer.code in (400, 404)
    assert answer.json["message"].startswith(newer if is_newer else older)


async def test_preconditions_of_definitions(both: tuple[Client, bool]) -> None:
    api, newer = both
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "x"}}
    status = failure(await api.delete(f"{DEFINITIONS}/widgets.test.example.com", options), 409, "Conflict")
    assert f"{'precondition' if newer else 'Precondition'} failed: UID in precondition: x" in status["message"]


FORMS = {
    "an object": ("/a", "application/json;drop=metadata.managedFields", ("metadata",)),
    "a list": ("", "application/json;drop=metadata.managedFields", ("items", 0, "metadata")),
    "pretty": ("/a?pretty=1", "application/json;drop=metadata.managedFields", ("metadata",)),
    "other fields, too": ("/a", "application/json;drop=metadata.x+metadata.managedFields", ("metadata",)),
    "its metadata": (
        "/a",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;drop=metadata.managedFields",
        ("metadata",),
    ),
}


@pytest.mark.parametrize("path, accept, place", FORMS.values(), ids=FORMS)
async def test_owners_can_be_left_out(
    both: tuple[Client, bool], path: str, accept: str, place: tuple[str | int, ...]
) -> None:
    api, newer = both
    await make(api, "a", size=1)
    answer = await api.get(f"{WIDGETS}{path}", accept=accept)
    metadata = answer.ok()
    for step in place:
        metadata = metadata[step]
    assert metadata["name"] == "a"
    assert ("managedFields" not in metadata) is newer
    assert answer.header("content-type") == "application/json"


async def test_owners_can_be_left_out_of_a_watch(both: tuple[Client, bool]) -> None:
    api, newer = both
    await make(api, "a", size=1)
    accept = "application/json;drop=metadata.managedFields"
    async with api.watch(f"{WIDGETS}?watch=true", accept=accept) as watch:
        assert ("managedFields" not in (await watch.event())["object"]["metadata"]) is newer
        (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
        changed = (await watch.event())["object"]
    assert changed["spec"]["size"] == 2
    assert ("managedFields" not in changed["metadata"]) is newer


@pytest.mark.parametrize("drop", ["", "metadata.annotations", "metadata.managedFields+metadata.managedFields"])
async def test_invalid_drop_parameters_are_ignored(both: tuple[Client, bool], drop: str) -> None:
    api, _ = both
    await make(api, "a", size=1)
    found = (await api.get(f"{WIDGETS}/a", accept=f"application/json;drop={drop}")).ok()
    assert found["metadata"]["managedFields"]


@pytest.mark.parametrize(
    "conditions, older, newer",
    [
        pytest.param(
            [{}],
            [
                'type: Invalid value: ""',
                "status: Unsupported value",
                "lastTransitionTime: Required",
                "reason: Required",
            ],
            [
                "type: Required value: is required",
                "status: Required",
                "lastTransitionTime: Required",
                "reason: Required",
            ],
            id="empty",
        ),
        pytest.param(
            [{"type": "A", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}] * 2,
            ["conditions[1].type: Duplicate value"],
            ["conditions[1]: Duplicate value"],
            id="twice",
        ),
    ],
)
async def test_errors_of_conditions(
    both: tuple[Client, bool], conditions: list[dict[str, str]], older: list[str], newer: list[str]
) -> None:
    api, is_newer = both
    path = MIGRATIONS.format("v1beta1")
    (await api.post(path, {"metadata": {"name": "m"}, "spec": {"resource": {"group": "", "resource": "nothing"}}})).ok()
    status = failure(await api.patch(f"{path}/m/status", {"status": {"conditions": conditions}}), 422, "Invalid")
    for text in newer if is_newer else older:
        assert text in status["message"]


async def test_names_that_files_reserve(both: tuple[Client, bool]) -> None:
    api, newer = both
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    answer = await api.post(path, {"metadata": {"name": "a.static.k8s.io"}})
    why = (
        'names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be '
        "managed via the API"
    )
    if not newer:
        assert (answer.code, answer.warnings) == (201, [f"metadata.name: {why}"])
        return
    causes = failure(answer, 422, "Invalid")["details"]["causes"]
    message = f'Invalid value: "a.static.k8s.io": {why}'
    assert causes == [{"reason": "FieldValueInvalid", "field": "metadata.name", "message": message}]


RBAC = "/apis/rbac.authorization.k8s.io/v1"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
# Objects without fields that tags of the Go structs require in 1.37: their errors then come last, without words.
REQUIRED: dict[str, tuple[str, Json, list[str], list[str]]] = {
    "verbs": (
        f"{RBAC}/clusterroles",
        {"rules": [{"resources": ["r"]}, {"apiGroups": [""], "resources": ["r"]}]},
        [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[1].verbs: Required value: verbs must contain at least one value",
        ],
        [
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].verbs: Required value",
            "rules[1].verbs: Required value",
        ],
    ),
    "names of a binding": (
        f"{RBAC}/clusterrolebindings",
        {"roleRef": {"kind": "Role"}, "subjects": [{"kind": "ServiceAccount"}]},
        [
            'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
            "roleRef.name: Required value",
            "subjects[0].name: Required value",
            "subjects[0].namespace: Required value",
        ],
        [
            'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
            "subjects[0].namespace: Required value",
            "subjects[0].name: Required value",
            "roleRef.name: Required value",
        ],
    ),
    "what a policy's binding does": (
        BINDINGS,
        {"spec": {"paramRef": {"name": "a"}}},
        [
            "spec.policyName: Required value",
            "spec.paramRef.parameterNotFoundAction: Required value",
            "spec.validationActions: Required value: at least one validation action is required",
        ],
        [
            "spec.paramRef.parameterNotFoundAction: Required value",
            "spec.policyName: Required value",
            "spec.validationActions: Required value",
        ],
    ),
}


@pytest.mark.parametrize("path, obj, older, newer", REQUIRED.values(), ids=REQUIRED)
async def test_required_fields(
    both: tuple[Client, bool], path: str, obj: Json, older: list[str], newer: list[str]
) -> None:
    api, is_newer = both
    causes = failure(await api.post(path, {"metadata": {"name": "a"}, **obj}), 422, "Invalid")["details"]["causes"]
    assert [f"{cause['field']}: {cause['message']}" for cause in causes] == (newer if is_newer else older)


async def test_required_fields_of_an_update(both: tuple[Client, bool]) -> None:
    api, is_newer = both
    rules = [{"apiGroups": [""], "resources": ["r"], "verbs": ["get"]}]
    (await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "a"}, "rules": rules})).ok(201)
    status = failure(await api.patch(f"{RBAC}/clusterroles/a", {"rules": [{**rules[0], "verbs": []}]}), 422, "Invalid")
    [cause] = status["details"]["causes"]
    assert cause["message"] == "Required value" + ("" if is_newer else ": verbs must contain at least one value")


OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
GADGETS = f"/apis/{GROUP}/{{}}/namespaces/default/gadgets"


async def unreadable_at_v2(api: Client) -> str:
    """Makes an object that has a finalizer and whose conversion to v2 fails; its path at v2."""
    body = definition("gadgets", "Gadget")
    versions = body["spec"]["versions"]
    versions.append({**versions[0], "name": "v2", "storage": False})
    client = {"url": "https://127.0.0.1:9/"}
    body["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    await define(api, body)
    gadget = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": "g", "finalizers": ["a.b/c"]}}
    (await api.post(GADGETS.format("v1"), gadget)).ok(201)
    return f"{GADGETS.format('v2')}/g"


async def test_an_unreadable_object_can_be_deleted(both: tuple[Client, bool]) -> None:
    api, newer = both
    path = await unreadable_at_v2(api)
    failure(await api.delete(path), 500, "")
    if not newer:
        failure(await api.delete(path, {OPTION: True}), 500, "")
        assert (await api.delete(f"{GADGETS.format('v1')}/g", {OPTION: True})).code == 200
        return
    readable = failure(await api.delete(f"{GADGETS.format('v1')}/g", {OPTION: True}), 409, "Conflict")
    assert readable["message"].endswith("unsafe deletion is not allowed because the object is decodable from storage")
    assert (await api.delete(f"{path}?{OPTION}=true&dryRun=All")).ok(200)["status"] == "Success"
    status = (await api.delete(path, {OPTION: True})).ok(200)
    assert status["details"] == {"name": "g", "kind": "Gadget"}
    failure(await api.get(f"{GADGETS.format('v1')}/g"), 404, "NotFound")
    failure(await api.delete(path, {OPTION: True}), 404, "NotFound")


async def test_options_excluded_by_ignore_store_read_error(both: tuple[Client, bool]) -> None:
    api, newer = both
    (await api.post(WIDGETS, widget("a"))).ok(201)
    body = {
        OPTION: True,
        "preconditions": {},
        "gracePeriodSeconds": 1,
        "propagationPolicy": "Orphan",
        "dryRun": ["All"],
    }
    answer = await api.delete(f"{WIDGETS}/a", body)
    of_all = await api.delete(WIDGETS, {OPTION: True, "dryRun": ["All"]})
    if not newer:
        assert (answer.code, of_all.code) == (200, 200)
        return
    causes = failure(answer, 422, "Invalid")["details"]["causes"]
    fields = ("propagationPolicy", "gracePeriodSeconds", "preconditions")
    assert [c["message"] for c in causes] == [f"Invalid value: true: cannot be set together with .{f}" for f in fields]
    assert "is not allowed with DELETECOLLECTION" in failure(of_all, 422, "Invalid")["message"]
    role = {"metadata": {"name": "deletes"}, "rules": [{"apiGroups": [GROUP], "resources": ["*"], "verbs": ["delete"]}]}
    (await api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)).ok(201)
    binding = {
        "metadata": {"name": "deletes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deletes"},
        "subjects": [{"kind": "User", "name": "pat"}],
    }
    (await api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)).ok(201)
    refused = await api.delete(f"{WIDGETS}/a", {OPTION: True}, headers={"Impersonate-User": "pat"})
    assert 'not permitted to do "unsafe-delete-ignore-read-errors"' in failure(refused, 403, "Forbidden")["message"]
