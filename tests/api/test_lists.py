"""Lists: order, pages at one revision, selectors, exact revisions, invalid and expired continue tokens."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
import yaml

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.histories import forget_history
from tests.api.widgets import ALL_WIDGETS, DEFINITIONS, GROUP, NAMESPACES, WIDGETS, make, names_of, widget
from tests.application import shares_application

pytestmark = shares_application


async def in_other_namespace(api: Client, *names: str) -> None:
    (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a-other"}})).ok(201)
    await make(api, *names, path=f"/apis/{GROUP}/v1/namespaces/a-other/widgets")


async def test_an_empty_list_has_no_items(shared_api: Client) -> None:
    found = (await shared_api.get(WIDGETS)).ok(200)
    assert found["items"] == []
    assert (found["kind"], found["apiVersion"]) == ("WidgetList", f"{GROUP}/v1")
    assert int(found["metadata"]["resourceVersion"]) > 0


async def test_objects_are_in_the_order_of_their_keys(api: Client) -> None:
    await make(api, "b", "a-1", "a", "c.d")
    await in_other_namespace(api, "z")
    assert names_of((await api.get(WIDGETS)).ok()) == ["a", "a-1", "b", "c.d"]
    assert names_of((await api.get(ALL_WIDGETS)).ok())[0] == "z"


@pytest.mark.parametrize("note", ["", "x" * 100_000], ids=["in one piece", "in several"])
@pytest.mark.parametrize(
    "form", ["", ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"]
)
async def test_a_list_in_yaml_is_that_in_json(shared_api: Client, form: str, note: str) -> None:
    """In a Table the rows come last, as keys of YAML are sorted."""
    for name in "abc":
        made = widget(name)
        made["metadata"]["annotations"] = {"note": note}
        (await shared_api.post(WIDGETS, made)).ok(201)
    in_json = (await shared_api.get(WIDGETS, accept=f"application/json{form}")).ok()
    in_yaml = await shared_api.get(WIDGETS, accept=f"application/yaml{form}")
    assert len(in_json.get("rows") or in_json["items"]) == 3
    assert yaml.load(in_yaml.text, yaml.CBaseLoader) == as_texts(in_json)


def as_texts(value: Any) -> Any:
    """Returns a document of JSON as a loader without types reads it from YAML."""
    if isinstance(value, dict):
        return {key: as_texts(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_texts(inner) for inner in value]
    return value if isinstance(value, str) else json.dumps(value)


async def test_the_list_of_a_missing_namespace_is_empty(api: Client) -> None:
    assert (await api.get(f"/apis/{GROUP}/v1/namespaces/nowhere/widgets")).ok()["items"] == []


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 500])
async def test_pages_together_are_the_list(shared_api: Client, limit: int) -> None:
    await make(shared_api, *"abcdefg")
    whole = (await shared_api.get(WIDGETS)).ok()
    seen, token, left = [], "", 7
    while True:
        page = (await shared_api.get(f"{WIDGETS}?limit={limit}&continue={token}")).ok()
        assert page["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
        seen += page["items"]
        left -= len(page["items"])
        token = page["metadata"]["continue"]
        assert page["metadata"].get("remainingItemCount", 0) == left
        if not token:
            break
        assert len(page["items"]) == limit
    assert seen == whole["items"]


async def test_pages_stay_at_the_revision_of_the_first(api: Client) -> None:
    made = await make(api, *"abcd", size=1)
    first = (await api.get(f"{WIDGETS}?limit=1")).ok()
    await make(api, "aa", "e")
    (await api.delete(f"{WIDGETS}/c")).ok()
    (await api.patch(f"{WIDGETS}/d", {"spec": {"size": 2}})).ok()
    rest = (await api.get(f"{WIDGETS}?limit=10&continue={first['metadata']['continue']}")).ok()
    assert first["items"] + rest["items"] == made
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_the_list_at_an_exact_revision(api: Client) -> None:
    made = await make(api, "a", "b", size=1)
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    (await api.delete(f"{WIDGETS}/b")).ok()
    at = made[-1]["metadata"]["resourceVersion"]
    then = (await api.get(f"{WIDGETS}?resourceVersion={at}&resourceVersionMatch=Exact")).ok()
    assert then["items"] == made
    assert then["metadata"]["resourceVersion"] == at
    now = (await api.get(f"{WIDGETS}?resourceVersion={at}&resourceVersionMatch=NotOlderThan")).ok()
    assert names_of(now) == ["a"]
    assert int(now["metadata"]["resourceVersion"]) > int(at)


SELECTED: dict[str, tuple[str, list[str]]] = {
    "equal": ("labelSelector=tier=web", ["a"]),
    "two keys": ("labelSelector=tier=web,env=prod", ["a"]),
    "unequal takes what lacks it": ("labelSelector=tier!=web", ["b", "c"]),
    "in": ("labelSelector=tier in (web,db)", ["a", "b"]),
    "not in": ("labelSelector=tier notin (web)", ["b", "c"]),
    "exists": ("labelSelector=tier", ["a", "b"]),
    "exists not": ("labelSelector=!tier", ["c"]),
    "nothing fits": ("labelSelector=tier=none", []),
    "a name": ("fieldSelector=metadata.name=b", ["b"]),
    "all but a name": ("fieldSelector=metadata.name!=b", ["a", "c"]),
    "a field": ("fieldSelector=spec.color=red", ["a", "c"]),
    "not a field": ("fieldSelector=spec.color!=red", ["b"]),
    "a field and a label": ("fieldSelector=spec.color=red&labelSelector=tier", ["a"]),
    "a namespace": ("fieldSelector=metadata.namespace=default", ["a", "b", "c"]),
    "another namespace": ("fieldSelector=metadata.namespace=other", []),
}


@pytest.mark.parametrize("query, names", SELECTED.values(), ids=SELECTED)
async def test_selectors(shared_api: Client, query: str, names: list[str]) -> None:
    (await shared_api.post(WIDGETS, widget("a", labels={"tier": "web", "env": "prod"}, color="red"))).ok()
    (await shared_api.post(WIDGETS, widget("b", labels={"tier": "db"}, color="blue"))).ok()
    (await shared_api.post(WIDGETS, widget("c", color="red"))).ok()
    for path in (WIDGETS, ALL_WIDGETS):
        assert names_of((await shared_api.get(f"{path}?{query}")).ok()) == names
        paged, token = [], ""
        while True:
            page = (await shared_api.get(f"{path}?{query}&limit=1&continue={token}")).ok()
            paged += names_of(page)
            token = page["metadata"]["continue"]
            if not token:
                break
        assert paged == names


REFUSED: dict[str, tuple[str, int, str]] = {
    "a label selector": ("labelSelector=a=b=c", 400, "BadRequest"),
    "a label's key": ("labelSelector=-bad", 400, "BadRequest"),
    "a field selector": ("fieldSelector=spec.size=1", 400, "BadRequest"),
    "a field selector's form": ("fieldSelector=nonsense", 400, "BadRequest"),
    "a limit": ("limit=many", 400, "BadRequest"),
    "a revision": ("resourceVersion=abc", 400, "BadRequest"),
    "a match without a revision": ("resourceVersionMatch=Exact", 422, "Invalid"),
    "an unknown match": ("resourceVersion=1&resourceVersionMatch=About", 422, "Invalid"),
    "a match, before a field": ("fieldSelector=x=1&resourceVersionMatch=Exact", 422, "Invalid"),
    "a field selector's form, before a match": ("fieldSelector=nonsense&resourceVersionMatch=Exact", 400, "BadRequest"),
    "a token": ("continue=nonsense!", 400, "BadRequest"),
    "a token and a revision": ("continue=abc&resourceVersion=5&limit=1", 400, "BadRequest"),
    "a timeout": ("timeoutSeconds=soon", 400, "BadRequest"),
}


@pytest.mark.parametrize("query, code, reason", REFUSED.values(), ids=REFUSED)
async def test_invalid_parameters(shared_api: Client, query: str, code: int, reason: str) -> None:
    failure(await shared_api.get(f"{WIDGETS}?{query}"), code, reason)


def token(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


FORGED: dict[str, str] = {
    "no object": token([1]),
    "another version": token({"v": "v2", "rv": 1, "start": "a"}),
    "no revision": token({"v": "meta.k8s.io/v1", "start": "a"}),
    "a revision that is a word": token({"v": "meta.k8s.io/v1", "rv": "x", "start": "a"}),
    "a revision that is true": token({"v": "meta.k8s.io/v1", "rv": True, "start": "a"}),
    "a negative revision": token({"v": "meta.k8s.io/v1", "rv": -7, "start": "default/a"}),
    "a revision beyond int64": token({"v": "meta.k8s.io/v1", "rv": 10**30, "start": "default/a"}),
    "no start": token({"v": "meta.k8s.io/v1", "rv": 1}),
    "a start with a zero byte": token({"v": "meta.k8s.io/v1", "rv": -1, "start": "default/\0a\0b"}),
    "another namespace's start": token({"v": "meta.k8s.io/v1", "rv": -1, "start": "other/a\0"}),
    "half a surrogate": token({"v": "meta.k8s.io/v1", "rv": -1, "start": "\ud800"}),
    "half a surrogate as the version": token({"v": "\ud800", "rv": -1, "start": "a"}),
    "a path upwards": token({"v": "meta.k8s.io/v1", "rv": -1, "start": "../../a"}),
}


@pytest.mark.parametrize("given", FORGED.values(), ids=FORGED)
async def test_forged_continue_tokens_are_refused(shared_api: Client, given: str) -> None:
    """It is refused, or leads to a place in the same list: there is nothing behind a token but a key."""
    await make(shared_api, "a", "b")
    answer = await shared_api.get(f"{WIDGETS}?limit=1&continue={given}")
    if answer.code == 200:
        assert {i["metadata"]["namespace"] for i in answer.json["items"]} <= {"default"}
    else:
        assert answer.code in (400, 410, 504)
        failure(answer, answer.code, answer.json["reason"])


@pytest.mark.parametrize(
    "given, message",
    [
        (token(None), "server does not recognize this encoded version "),
        # Decoding some thousand levels held the event loop for a tenth of a second.
        (token(json.loads("[" * 200 + "]" * 200)), "exceeded max depth"),
        *[
            (token({"v": "meta.k8s.io/v1", "rv": -1, "start": start}), start)
            for start in ("../x", "default/", "//", "a//b\0", "./c", "a/../b\0")
        ],
        *[
            (token(value), f"json: cannot unmarshal {what}")
            for value, what in (
                ([], "array into Go value of type storage.continueToken"),
                ({"v": 1, "rv": "x"}, "number into Go struct field continueToken.v of type string"),
                ({"v": "meta.k8s.io/v2", "rv": "1"}, "string into Go struct field continueToken.rv of type int64"),
                ({"rv": 1.5}, "number 1.5 into Go struct field continueToken.rv of type int64"),
                ({"rv": 1 << 63}, "number 9223372036854775808 into Go struct field continueToken.rv of type int64"),
                ({"rv": -1, "start": {}}, "object into Go struct field continueToken.start of type string"),
            )
        ],
    ],
)
async def test_continue_tokens_that_name_no_key(shared_api: Client, given: str, message: str) -> None:
    status = failure(await shared_api.get(f"{WIDGETS}?limit=1&continue={given}"), 400, "BadRequest")
    assert status["message"] == f"invalid continue token: continue key is not valid: {message}"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"V": "meta.k8s.io/v1", "RV": -1, "Start": "default/a\0"}, id="names in capitals"),
        pytest.param({"v": "meta.k8s.io/v1", "rv": -2, "start": "default/a\0"}, id="any negative revision"),
    ],
)
async def test_continue_tokens_as_go_reads_them(shared_api: Client, fields: dict[str, Any]) -> None:
    await make(shared_api, "a", "b")
    found = (await shared_api.get(f"{WIDGETS}?continue={token(fields)}")).ok()
    assert [item["metadata"]["name"] for item in found["items"]] == ["b"]


async def test_an_expired_continue_token_returns_a_new_one(api: Client, api_database: str) -> None:
    await make(api, *"abc")
    first = (await api.get(f"{WIDGETS}?limit=1")).ok()
    await make(api, "d")
    await forget_history(api_database)
    status = failure(await api.get(f"{WIDGETS}?limit=1&continue={first['metadata']['continue']}"), 410, "Expired")
    assert status["message"].startswith("The provided continue parameter is too old to display a consistent list")
    rest = (await api.get(f"{WIDGETS}?continue={status['metadata']['continue']}")).ok()
    assert names_of(rest) == ["b", "c", "d"]


async def test_an_exact_revision_below_the_history_is_expired(api: Client, api_database: str) -> None:
    [made] = await make(api, "a")
    await make(api, "b")
    await forget_history(api_database)
    at = made["metadata"]["resourceVersion"]
    failure(await api.get(f"{WIDGETS}?resourceVersion={at}&resourceVersionMatch=Exact"), 410, "Expired")


async def test_a_revision_from_the_future_is_waited_for_and_then_refused(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.api.freshness.WAIT_SECONDS", 0.01)
    monkeypatch.setattr("registry.api.freshness.STEP_SECONDS", 0.01)
    for query in ("", "&resourceVersionMatch=NotOlderThan", "&limit=1&resourceVersionMatch=NotOlderThan"):
        status = failure(await api.get(f"{WIDGETS}?resourceVersion=99999{query}"), 504, "Timeout")
        assert status["message"].startswith("Timeout: Too large resource version: 99999, current: ")
        assert status["details"]["retryAfterSeconds"] == 1


@pytest.mark.parametrize("revision", ["99999", str((1 << 63) - 1), str(1 << 63), str((1 << 64) - 1)])
@pytest.mark.parametrize(
    "query",
    [
        "resourceVersionMatch=Exact",
        "limit=1",
        "limit=1&resourceVersionMatch=Exact",
        "limit=1&resourceVersionMatch=Exact&filter=true",
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_list_at_exactly_a_revision_from_the_future_is_waited_for_unless_it_is_of_one_object(
    api: Client, monkeypatch: pytest.MonkeyPatch, method: str, query: str, revision: str
) -> None:
    """Only single objects of the past are not in kube-apiserver's watch cache."""
    monkeypatch.setattr("registry.api.freshness.WAIT_SECONDS", 0.01)
    monkeypatch.setattr("registry.api.freshness.STEP_SECONDS", 0.01)
    answer = await api.request(method, f"{WIDGETS}?resourceVersion={revision}&{query}")
    assert failure(answer, 504, "Timeout")["details"]["retryAfterSeconds"] == 1
    if "filter" in query:  # which kube-apiserver does not have
        return
    monkeypatch.setattr("registry.api.freshness.wait_until", None)
    answer = await api.request(method, f"{WIDGETS}?resourceVersion={revision}&{query}&fieldSelector=metadata.name=a")
    status = failure(answer, 504, "Timeout")
    assert status["message"].startswith(f"Timeout: Too large resource version: {revision}, current: ")
    assert list(status["details"]) == ["causes"]
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("path", ["events", "events/a"])
async def test_events_of_the_future_are_not_waited_for(api: Client, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setattr("registry.api.freshness.wait_until", None)
    answer = await api.get(f"{NAMESPACES}/default/{path}?resourceVersion=99999")
    assert list(failure(answer, 504, "Timeout")["details"]) == ["causes"]


async def test_a_long_list_is_streamed_and_compressed_on_request(api: Client) -> None:
    await make(api, *(f"w{n:03}" for n in range(150)), free={"text": "x" * 2000})
    plain = await api.get(WIDGETS)
    assert len(plain.ok()["items"]) == 150
    packed = await api.get(WIDGETS, headers={"accept-encoding": "gzip"})
    assert packed.header("content-encoding") == "gzip"
    assert zlib.decompress(packed.body, 31) == plain.body
    refused = await api.get(WIDGETS, headers={"accept-encoding": "gzip;q=0"})
    assert (refused.header("content-encoding"), refused.body) == ("", plain.body)


async def test_a_long_object_is_compressed_for_clients_that_accept_it(api: Client) -> None:
    await make(api, "long", free={"text": "x" * 200_000})
    await make(api, "short", free={"text": "x" * 2_000})
    plain = await api.get(f"{WIDGETS}/long")
    packed = await api.get(f"{WIDGETS}/long", headers={"accept-encoding": "gzip"})
    assert (packed.header("content-encoding"), packed.header("vary")) == ("gzip", "Accept-Encoding")
    assert int(packed.header("content-length")) == len(packed.body) < len(plain.body)
    assert zlib.decompress(packed.body, 31) == plain.body
    short = await api.get(f"{WIDGETS}/short", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in short.headers


def opened(given: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    return found


async def test_a_continue_token_carries_the_remaining_count_of_its_own_list(api: Client) -> None:
    await make(api, *"abcdef")
    await in_other_namespace(api, "y", "z")
    first = (await api.get(f"{ALL_WIDGETS}?limit=3")).ok()["metadata"]
    assert first["remainingItemCount"] == 5
    # The token of all namespaces leads into one of them as well: there its count is not what remains.
    inside = (await api.get(f"{WIDGETS}?limit=2&continue={first['continue']}")).ok()
    assert (names_of(inside), inside["metadata"]["remainingItemCount"]) == (["b", "c"], 3)
    selected = (await api.get(f"{ALL_WIDGETS}?limit=1&fieldSelector=spec.color=&continue={first['continue']}")).ok()
    assert "remainingItemCount" not in selected["metadata"]


LEFT: dict[str, Any] = {
    "a word": "x",
    "a fraction": 1.5,
    "true": True,
    "negative": -3,
    "beyond int64": 10**30,
    "a list": [],
}


@pytest.mark.parametrize("left", LEFT.values(), ids=LEFT)
async def test_the_remaining_count_of_a_forged_token_is_checked(shared_api: Client, left: Any) -> None:
    await make(shared_api, *"abcd")
    first = opened((await shared_api.get(f"{WIDGETS}?limit=1")).ok()["metadata"]["continue"])
    page = (await shared_api.get(f"{WIDGETS}?limit=1&continue={token({**first, 'left': left})}")).ok()
    assert page["metadata"]["remainingItemCount"] == 2


async def test_a_long_list_of_objects_that_two_schemas_have_processed(api: Client) -> None:
    """What the present schema has processed is passed on as it is stored; the others among them take its defaults."""
    old = [f"w{n:03}" for n in range(0, 120, 2)]
    await make(api, *old, size=1)
    path = f"{DEFINITIONS}/widgets.{GROUP}"
    definition = (await api.get(path)).ok()
    for version in definition["spec"]["versions"]:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["grade"] = {"type": "integer", "default": 3}
    (await api.put(path, definition)).ok()
    new = [f"w{n:03}" for n in (1, *range(101, 120, 2))]
    await make(api, *new, size=1)
    listed = (await api.get(WIDGETS)).ok()
    assert names_of(listed) == sorted(old + new)
    assert [item["spec"]["grade"] for item in listed["items"]] == [3] * len(old + new)
