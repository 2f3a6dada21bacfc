"""CBOR over HTTP, if enabled by the settings: request bodies, responses, applies and watches."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from registry.codec.cbor import decode_cbor, encode_cbor, encode_item
from registry.http.negotiation import serve_cbor
from tests.api.client import PARTIAL, PARTIAL_LIST, TABLE, Answer, Client, Watch
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, widget
from tests.application import new_tenant, serving, shares_application, shares_tenant
from tests.emulating import emulating

pytestmark = [shares_application, shares_tenant]

CBOR, APPLY = "application/cbor", "application/apply-patch+cbor"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cbor_application(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Client]:
    async with serving(module_database, tmp_path_factory.mktemp("cbor"), cbor=True) as client:
        serve_cbor(False)
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def cbor(cbor_application: Client) -> AsyncIterator[Client]:
    """A tenant of a process that serves CBOR. Whether it does is a setting of the process, which `api` has without it."""
    serve_cbor(True)
    try:
        yield await new_tenant(cbor_application)
    finally:
        serve_cbor(False)


def read(answer: Answer, code: int = 200) -> Any:
    assert (answer.code, answer.header("content-type")) == (code, CBOR), answer.body
    assert answer.body.startswith(b"\xd9\xd9\xf7")
    return decode_cbor(answer.body).value


MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "ä"}}


@pytest.mark.parametrize(
    "path, obj",
    [pytest.param(WIDGETS, widget("a", size=3, replicas=1), id="custom"), pytest.param(MAPS, MAP, id="built-in")],
)
async def test_the_life_of_an_object(cbor: Client, path: str, obj: dict[str, Any]) -> None:
    options = {"content_type": CBOR, "accept": CBOR}
    made = read(await cbor.post(path, encode_cbor(obj), **options), 201)
    assert made == (await cbor.get(f"{path}/a")).ok() == read(await cbor.get(f"{path}/a", accept=CBOR))
    assert read(await cbor.get(path, accept=f"{CBOR},application/json")) == (await cbor.get(path)).ok()
    made["metadata"]["labels"] = {"x": "y"}
    changed = read(await cbor.put(f"{path}/a", encode_cbor(made), **options))
    assert changed["metadata"]["labels"] == {"x": "y"}
    applied = {**obj, "metadata": {"name": "a", "labels": {"z": "y"}}}
    applied_at = f"{path}/a?fieldManager=m&force=true"
    found = read(await cbor.patch(applied_at, encode_cbor(applied), APPLY, accept=CBOR))
    assert found["metadata"]["labels"] == {"x": "y", "z": "y"}
    options_of_delete = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
    assert (await cbor.delete(f"{path}/a", encode_cbor(options_of_delete), **options)).code == 200
    assert (await cbor.get(f"{path}/a")).code == 200


async def test_bytes_have_a_tag_and_are_not_in_base64(cbor: Client) -> None:
    """A Go client takes a byte string without the tag for the bytes themselves."""
    secrets = MAPS.replace("configmaps", "secrets")
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    client_config = {"url": "https://127.0.0.1/", "caBundle": "YWJj"}
    webhook = {"name": "a.b.c", "clientConfig": client_config, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    tagged = b"\xd6\x43abc"  # 22 and three bytes
    for path, more, name in (
        (secrets, {"data": {"k": "YWJj"}}, b"\x41k"),
        (MAPS, {"binaryData": {"k": "YWJj"}}, b"\x41k"),
        (hooks, {"webhooks": [webhook]}, b"\x48caBundle"),
    ):
        only = f"{path}?watch=true&resourceVersion={(await cbor.get(path)).json['metadata']['resourceVersion']}"
        async with cbor.watch(only, accept=CBOR) as watch:
            body = encode_cbor({"metadata": {"name": "bytes"}, **more})
            made = await cbor.post(path, body, content_type=CBOR, accept=CBOR)
            assert name + tagged in made.body
            event = await watch.read(len(made.body) + len(b"ADDEDobjecttype") + 7)
            assert name + tagged in event
        one, several = await cbor.get(f"{path}/bytes", accept=CBOR), await cbor.get(path, accept=CBOR)
        assert name + tagged in one.body
        assert name + tagged in several.body
        assert (await cbor.get(f"{path}/bytes")).ok() == read(one)


async def test_there_are_no_tables(cbor: Client) -> None:
    """As in kube-apiserver, whose Tables are JSON or YAML (AllowsMediaTypeTransform)."""
    of_cbor = TABLE.replace("application/json", CBOR)
    for path in (WIDGETS, MAPS):
        failure(await cbor.get(path, accept=of_cbor), 406, "NotAcceptable")
        failure(await cbor.get(f"{path}?watch=true", accept=of_cbor), 406, "NotAcceptable")
        assert (await cbor.get(path, accept=f"{of_cbor},{TABLE}")).ok()["kind"] == "Table"


async def test_a_cbor_sequence_cannot_be_requested(cbor: Client) -> None:
    for path in (WIDGETS, MAPS):
        status = failure(await cbor.get(f"{path}?watch=true", accept="application/cbor-seq"), 406, "NotAcceptable")
        assert status["message"].startswith("only the following media types are accepted: application/json, ")


@pytest.mark.parametrize("form", [PARTIAL_LIST])
async def test_forms_of_lists(cbor: Client, form: str) -> None:
    for count in (0, 1, 30):
        for number in range(count):
            await cbor.post(WIDGETS, widget(f"w{number}"))
        found = read(await cbor.get(WIDGETS, accept=form.replace("application/json", CBOR)))
        # Controllers may write to a new tenant meanwhile.
        at = f"?resourceVersion={found['metadata']['resourceVersion']}&resourceVersionMatch=Exact"
        assert found == (await cbor.get(WIDGETS + at, accept=form)).ok()


async def frame(watch: Watch, expected: dict[str, Any]) -> None:
    """The next event is the one that is expected; its bytes say nothing of its length."""
    length = len(encode_cbor({"type": expected["type"], "object": expected["object"]})) + 3
    assert decode_cbor(await watch.read(length)).value == expected


async def test_a_watch_is_a_sequence(cbor: Client) -> None:
    made = (await cbor.post(WIDGETS, widget("a"))).ok(201)
    async with cbor.watch(f"{WIDGETS}?watch=true", accept=CBOR) as watch:
        assert (watch.code, watch.headers["content-type"]) == (200, ["application/cbor-seq"])
        await frame(watch, {"type": "ADDED", "object": made})
        changed = (await cbor.patch(f"{WIDGETS}/a", {"metadata": {"labels": {"a": "b"}}})).ok()
        await frame(watch, {"type": "MODIFIED", "object": changed})


async def test_scale_and_status(cbor: Client) -> None:
    made = (await cbor.post(WIDGETS, widget("a", replicas=1))).ok(201)
    scale = read(await cbor.get(f"{WIDGETS}/a/scale", accept=CBOR))
    put = await cbor.put(f"{WIDGETS}/a/scale", encode_cbor({**scale, "spec": {"replicas": 4}}), content_type=CBOR)
    assert put.ok()["spec"] == {"replicas": 4}
    made["metadata"].pop("resourceVersion")
    latest = (await cbor.get(f"{WIDGETS}/a")).ok()
    status = {**latest, "status": {"phase": "Ready"}}
    written = await cbor.put(f"{WIDGETS}/a/status", encode_cbor(status), content_type=CBOR)
    assert written.ok()["status"] == {"phase": "Ready"}


@pytest.mark.parametrize(
    "body, message",
    [
        pytest.param(
            b"",
            "the object provided is unrecognized (must be of type Widget): cbor: unexpected EOF (<empty>)",
            id="empty",
        ),
        pytest.param(
            b"\xa2\x44kind\x01\x44kind\x02",
            "the object provided is unrecognized (must be of type Widget): cbor: duplicate map key (a2446b696e6401446b696e6402)",
            id="a key twice",
        ),
    ],
)
async def test_bodies_that_are_refused(cbor: Client, body: bytes, message: str) -> None:
    assert failure(await cbor.post(WIDGETS, body, content_type=CBOR), 400, "BadRequest")["message"] == message
    status = read(await cbor.post(WIDGETS, body, content_type=CBOR, accept=CBOR), 400)
    assert (status["kind"], status["message"]) == ("Status", message)


async def test_an_apply_that_is_refused(cbor: Client) -> None:
    path = f"{WIDGETS}/a?fieldManager=m"
    status = failure(await cbor.patch(path, b"\xf9\x7e\x00", APPLY), 400, "BadRequest")
    assert status["message"] == (
        "error decoding patch: cbor: data item of cbor type primitives is not accepted by protocol: floating-point NaN"
    )
    failure(await cbor.patch(path, encode_item([1]), APPLY), 400, "BadRequest")
    with emulating("1.36"):
        refused = failure(await cbor.patch(path, b"\xc0\x05", APPLY), 400, "BadRequest")
    assert refused["message"] == "error decoding YAML: cbor: tag number 0 must be followed by text string"


async def test_deep_objects(cbor: Client) -> None:
    """JSON may be nested more deeply than CBOR that is sent."""
    deep = '{"a":' * 2000 + "1" + "}" * 2000
    body = json.dumps({**widget("a"), "spec": {"free": {"a": 0}}}).replace("0", deep)
    assert (await cbor.post(WIDGETS, body)).code == 201
    for path in (f"{WIDGETS}/a", WIDGETS):
        assert (await cbor.get(path, accept=CBOR)).body.count(b"\xa1\x41a") >= 2000
    async with cbor.watch(f"{WIDGETS}?watch=true", accept=CBOR) as watch:
        assert (await watch.read(4000)).startswith(b"\xd9\xd9\xf7\xa2\x44type\x45ADDED\x46object")
    for path, obj in ((WIDGETS, widget("b")), (MAPS, {**MAP, "metadata": {"name": "b"}})):
        beginning = encode_item({**obj, "zz": 0}).removesuffix(b"\x00")
        for levels in (390, 5000):
            refused = beginning + b"\x81" * levels + b"\x00"
            failure(await cbor.post(path, refused, content_type=CBOR), 400, "BadRequest")
            failure(await cbor.patch(f"{path}/b?fieldManager=m", refused, APPLY), 400, "BadRequest")


async def test_cbor_is_refused_without_the_setting(api: Client) -> None:
    await api.post(WIDGETS, widget("a"))
    for path in (f"{WIDGETS}/a", WIDGETS, f"{WIDGETS}/a/scale", f"{WIDGETS}?watch=true"):
        assert "cbor" not in failure(await api.get(path, accept=CBOR), 406, "NotAcceptable")["message"]
    failure(await api.post(WIDGETS, encode_cbor(widget("b")), content_type=CBOR), 415, "UnsupportedMediaType")
    failure(await api.patch(f"{WIDGETS}/a", encode_cbor({}), APPLY), 415, "UnsupportedMediaType")


async def test_openapi_lists_cbor(cbor: Client) -> None:
    """As kube-apiserver's, for built-in kinds only; there is no such media type without the setting."""
    for version in ("v3/api/v1", "v2"):
        document = (await cbor.get(f"/openapi/{version}")).ok()
        listing = document["paths"]["/api/v1/namespaces/{namespace}/configmaps"]["get"]
        named = document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]
        if version == "v2":
            produced, patched = listing["produces"], named["patch"]["consumes"]
        else:
            produced = [*listing["responses"]["200"]["content"]]
            patched = [*named["patch"]["requestBody"]["content"]]
        assert {CBOR, "application/cbor-seq"} < set(produced), version
        assert APPLY in patched, version
    group = WIDGETS.split("/namespaces/")[0].removeprefix("/")
    assert CBOR not in (await cbor.get(f"/openapi/v3/{group}")).text


@pytest.mark.parametrize(
    "path, media_type",
    [
        ("/api", "application/json"),
        ("/apis", "application/json"),
        ("/apis/{group}", "application/json"),
        ("/apis/{group}/{version}", "application/json"),
        ("/apis/events.k8s.io", "application/json"),
        ("/apis/events.k8s.io/v1", CBOR),
        ("/api/v1", CBOR),
    ],
)
async def test_discovery_as_client_go_asks_for_it(cbor: Client, path: str, media_type: str) -> None:
    """Discovery clients that prefer CBOR ask for it, but cannot read it."""
    _, _, group, version, *_ = WIDGETS.split("/")
    path = path.format(group=group, version=version)
    answer = await cbor.get(path, accept=f"{CBOR}, */*")
    assert (answer.code, answer.header("content-type")) == (200, media_type)
    if media_type != CBOR:
        refused = await cbor.get(path, accept=CBOR)
        assert refused.code == 406
        assert CBOR.encode() not in refused.body


async def test_openapi_does_not_list_cbor_without_the_setting(api: Client) -> None:
    assert "cbor" not in (await api.get("/openapi/v3/api/v1")).text


@pytest.mark.parametrize(
    "method, path, code",
    [
        ("GET", "/apis", 406),
        ("GET", "/version", 406),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
        ("GET", "/api/v1/nothings", 404),
        ("DELETE", WIDGETS.replace("/widgets", "/widgets/a/scale"), 405),
    ],
)
async def test_the_router_has_no_cbor(cbor: Client, method: str, path: str, code: int) -> None:
    """Upstream negotiates CBOR for the answers of resources only."""
    answer = await cbor.request(method, path, accept=CBOR)
    assert (answer.code, answer.header("content-type")) == (code, "application/json")
    assert answer.json["kind"] == "Status"
    answer = await cbor.request(method, path, accept=f"{CBOR}, application/yaml")
    if code != 406:
        assert (answer.code, answer.header("content-type")) == (code, "application/yaml")


async def test_error_texts_list_cbor(cbor: Client) -> None:
    status = failure(await cbor.get(WIDGETS, accept="text/csv"), 406, "NotAcceptable")
    assert status["message"].endswith(
        "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor"
    )
    status = failure(await cbor.patch(f"{WIDGETS}/a", b"", "text/csv"), 415, "UnsupportedMediaType")
    assert status["message"].endswith("application/apply-patch+yaml, application/apply-patch+cbor")
    assert (await cbor.get(f"{WIDGETS}", accept=PARTIAL.replace("application/json", CBOR))).code == 406
