"""Bodies that are too long, too deep, hostile or malformed; long bodies do not delay other requests."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import orjson
import pytest

from registry.codec.model import MAX_CONTAINERS, MAX_KEYS, MAX_STORED_KEYS
from registry.flowcontrol.evaluation import ASIDE, Evaluations
from registry.http import bodies
from registry.http.bodies import aside_if_long
from tests.api.client import APPLY, JSON_PATCH, MERGE, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, WIDGETS, make, widget
from tests.application import shares_application

LIMIT = 3 * 1024 * 1024
TOO_LARGE = "Request entity too large: limit is 3145728"
YAML = "application/yaml"


def of_length(length: int) -> bytes:
    body = orjson.dumps(widget("a"))
    return body + b" " * (length - len(body))


@shares_application
async def test_the_limit_is_three_mebibytes(shared_api: Client) -> None:
    assert (
        failure(await shared_api.post(WIDGETS, of_length(LIMIT + 1)), 413, "RequestEntityTooLarge")["message"]
        == TOO_LARGE
    )
    (await shared_api.post(WIDGETS, of_length(LIMIT))).ok(201)


@shares_application
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_every_verb_has_the_limit(shared_api: Client, method: str) -> None:
    path = WIDGETS if method == "POST" else f"{WIDGETS}/a"
    answer = await shared_api.request(
        method, path, of_length(LIMIT + 1), content_type=MERGE if method == "PATCH" else YAML
    )
    failure(answer, 413, "RequestEntityTooLarge")


@shares_application
async def test_a_declared_length_is_enough_to_refuse(shared_api: Client) -> None:
    failure(
        await shared_api.post(WIDGETS, b"{", headers={"content-length": str(LIMIT + 1)}), 413, "RequestEntityTooLarge"
    )


TOO_MANY = "Request entity too large: more than 200000 objects and lists"


@shares_application
@pytest.mark.parametrize(
    "method, content_type",
    [
        ("POST", "application/json"),
        ("POST", YAML),
        ("PUT", "application/json"),
        ("PUT", YAML),
        ("PATCH", MERGE),
        ("PATCH", JSON_PATCH),
        ("PATCH", APPLY),
        ("DELETE", "application/json"),
        ("DELETE", YAML),
    ],
)
async def test_objects_and_lists_are_limited(shared_api: Client, method: str, content_type: str) -> None:
    """Nothing else runs while C code creates them."""
    path = WIDGETS if method == "POST" else f"{WIDGETS}/a"
    if method != "POST":
        await make(shared_api, "a")
    value: Any = {**widget("a"), "spec": {"free": {"lists": [[]] * MAX_CONTAINERS}}}
    if content_type == JSON_PATCH:
        value = [{"op": "add", "path": "/spec/free", "value": value["spec"]["free"]}]
    if content_type == APPLY:
        path += "?fieldManager=me"
    answer = await shared_api.request(method, path, orjson.dumps(value), content_type=content_type)
    assert failure(answer, 413, "RequestEntityTooLarge")["message"] == TOO_MANY


@shares_application
async def test_keys_are_limited(shared_api: Client) -> None:
    """Of a body, and of the object that several bodies have made, with its managedFields."""
    body = {**widget("a"), "spec": {"free": dict.fromkeys(map(str, range(MAX_KEYS)), 1)}}
    answer = await shared_api.post(WIDGETS, body)
    message = failure(answer, 413, "RequestEntityTooLarge")["message"]
    assert message == f"Request entity too large: more than {MAX_KEYS} keys"
    await make(shared_api, "a", free=dict.fromkeys(map(str, range(100_000)), 1))
    more = {"spec": {"free": dict.fromkeys(map(str, range(100_000, 240_000)), 1)}}
    answer = await shared_api.patch(f"{WIDGETS}/a", more, MERGE)
    message = failure(answer, 413, "RequestEntityTooLarge")["message"]
    assert message == f"Request entity too large: the object would have more than {MAX_STORED_KEYS} keys"
    assert len((await shared_api.get(f"{WIDGETS}/a")).ok()["spec"]["free"]) == 100_000


@shares_application
async def test_colons_in_strings_are_not_counted(shared_api: Client) -> None:
    text = ':\\":' * MAX_KEYS
    assert (await make(shared_api, "a", free={"text": text}))[0]["spec"]["free"] == {"text": text}


@shares_application
async def test_nodes_of_yaml_are_limited(shared_api: Client) -> None:
    answer = await shared_api.post(WIDGETS, b"spec:\n" + b"-\n" * 500_000, content_type=YAML)
    message = failure(answer, 413, "RequestEntityTooLarge")["message"]
    assert message == "Request entity too large: more than 500000 nodes of YAML"


@shares_application
async def test_brackets_in_strings_are_not_counted(shared_api: Client) -> None:
    text = '[{\\"' * MAX_CONTAINERS
    assert (await make(shared_api, "a", free={"text": text}))[0]["spec"]["free"] == {"text": text}


BROKEN: dict[str, tuple[str, bytes]] = {
    "nothing": ("application/json", b""),
    "half an object": ("application/json", b'{"kind": "Widget"'),
    "a word": ("application/json", b"widget"),
    "a list": ("application/json", b"[1]"),
    "a number": ("application/json", b"1"),
    "two objects": ("application/json", b"{}{}"),
    "NaN": ("application/json", b'{"kind":"Widget","apiVersion":"test.example.com/v1","spec":{"size":NaN}}'),
    "no kind": ("application/json", b'{"apiVersion":"test.example.com/v1","metadata":{"name":"a"}}'),
    "a kind that is a number": ("application/json", b'{"kind":1}'),
    "metadata that is a list": (
        "application/json",
        b'{"kind":"Widget","apiVersion":"test.example.com/v1","metadata":[]}',
    ),
    "labels that are numbers": (
        "application/json",
        b'{"kind":"Widget","apiVersion":"test.example.com/v1","metadata":{"name":"a","labels":{"a":1}}}',
    ),
    "deep lists": ("application/json", b"[" * 1_000_000),
    "deep objects": ("application/json", b'{"a":' * 200_000 + b"1" + b"}" * 200_000),
    "a number beyond all bounds": ("application/json", b'{"kind":"Widget","spec":1' + b"0" * 400 + b"}"),
    "a tab in yaml": (YAML, b"\tkind: Widget"),
    "deep yaml": (YAML, b"[" * 100_000),
    "deep indented yaml": (YAML, b"".join(b" " * n + b"a:\n" for n in range(1000))),
    "a bomb of aliases": (
        YAML,
        b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 20)),
    ),
    "an alias of itself": (YAML, b"a: &a [*a]"),
    "yaml that builds objects": (YAML, b"!!python/object/apply:os.system ['true']"),
    "yaml that is not utf-8": (YAML, b"\xff\xfe\xfd"),
}


@shares_application
@pytest.mark.parametrize("content_type, body", BROKEN.values(), ids=BROKEN)
async def test_a_broken_body_is_a_bad_request(shared_api: Client, content_type: str, body: bytes) -> None:
    status = failure(await shared_api.post(WIDGETS, body, content_type=content_type), 400, "BadRequest")
    assert len(status["message"]) < 1_500_000


@shares_application
@pytest.mark.parametrize("form", [MERGE, JSON_PATCH, APPLY, "application/strategic-merge-patch+json"])
@pytest.mark.parametrize(
    "body",
    [b"", b"[" * 200_000, b'{"a":' * 100_000, b"\xff", b"nonsense: [", b"null"],
    ids=["empty", "lists", "objects", "bytes", "words", "null"],
)
async def test_a_broken_patch_is_refused(shared_api: Client, form: str, body: bytes) -> None:
    await make(shared_api, "a")
    path = f"{NAMESPACES}/default" if "strategic" in form else f"{WIDGETS}/a"
    answer = await shared_api.patch(f"{path}?fieldManager=me", body, form)
    if answer.code == 200:
        assert body in (b"null", b""), answer.text  # says nothing, changes nothing
    else:
        assert 400 <= answer.code < 500 or body in (b"null", b""), answer.text
        failure(answer, answer.code, answer.json.get("reason", ""))


@shares_application
@pytest.mark.parametrize("value", ["Strict", "Warn", "Ignore"])
async def test_a_key_given_twice(shared_api: Client, value: str) -> None:
    body = (
        b'{"kind":"Widget","apiVersion":"test.example.com/v1","metadata":{"name":"a"},'
        b'"spec":{"size":1,"size":2,"nope":3}}'
    )
    answer = await shared_api.post(f"{WIDGETS}?fieldValidation={value}", body)
    if value == "Strict":
        message = failure(answer, 400, "BadRequest")["message"]
        assert message.endswith('strict decoding error: duplicate field "spec.size", unknown field "spec.nope"')
        return
    assert answer.ok(201)["spec"] == {"size": 2, "color": "grey"}
    messages = ['duplicate field "spec.size"', 'unknown field "spec.nope"']
    assert answer.warnings == (messages if value == "Warn" else [])


@shares_application
async def test_the_maximum_depth_of_an_object(shared_api: Client) -> None:
    deep: Any = 1
    for _ in range(200):
        deep = {"a": deep}
    (await shared_api.post(WIDGETS, widget("a", free={"deep": deep}))).ok(201)
    assert (await shared_api.get(f"{WIDGETS}/a")).ok()["spec"]["free"]["deep"] == deep


@shares_application
async def test_any_unicode_text_round_trips(shared_api: Client) -> None:
    text = '\0\x01\x7f \u2028 \ud7ff \uffff 🦉 \\ " </script> é'
    (await shared_api.post(WIDGETS, widget("a", free={"t": text, text: 1}))).ok(201)
    free = (await shared_api.get(f"{WIDGETS}/a")).ok()["spec"]["free"]
    assert free == {"t": text, text: 1}
    (await shared_api.patch(f"{WIDGETS}/a", {"metadata": {"labels": {"x": "y"}}})).ok()
    assert (await shared_api.get(WIDGETS)).ok()["items"][0]["spec"]["free"] == free


@shares_application
@pytest.mark.parametrize("length", [bodies.LONG_YAML_BYTES - 2000, bodies.LONG_JSON_BYTES + 10_000], ids=["", "long"])
@pytest.mark.parametrize("content_type", ["application/json", YAML, "", "application/json; charset=utf-8"])
async def test_long_bodies_decode_like_short_ones(shared_api: Client, length: int, content_type: str) -> None:
    body = orjson.dumps(widget("a", size=1, free={"text": "x" * length}))
    (await shared_api.post(WIDGETS, body, content_type=content_type)).ok(201)
    patch = orjson.dumps({"spec": {"free": {"more": "y" * length}}})
    assert len((await shared_api.patch(f"{WIDGETS}/a", patch)).ok()["spec"]["free"]["more"]) == length
    broken = await shared_api.post(WIDGETS, body[:-1], content_type=content_type)
    failure(broken, 400, "BadRequest")
    applied = orjson.dumps(widget("b", size=1, free={"text": "x" * length}))
    (await shared_api.patch(f"{WIDGETS}/b?fieldManager=m", applied, APPLY)).ok(201)


MERGED = ("a: &a {" + ", ".join(f"k{i}: 1" for i in range(200)) + "}\n" + "b: {<<: *a}\n" * 150).encode()


@shares_application
@pytest.mark.parametrize(
    "method, path, content_type",
    [
        ("POST", WIDGETS, YAML),
        ("PATCH", f"{WIDGETS}/a?fieldManager=m", APPLY),
        ("DELETE", f"{WIDGETS}/a", YAML),
        ("POST", f"{WIDGETS}/a/restore", YAML),
    ],
)
async def test_yaml_with_aliases_is_decoded_beside_the_event_loop(
    shared_api: Client, method: str, path: str, content_type: str
) -> None:
    """Merges of 12 kB held it for 0.3 s."""
    await make(shared_api, "a")
    before = ASIDE._value.get()
    assert (await shared_api.request(method, path, MERGED, content_type=content_type)).code in (200, 400)
    assert ASIDE._value.get() > before


async def test_short_bodies_that_take_long_are_charged_to_their_tenant() -> None:
    evaluations = Evaluations(is_shared=lambda: True)
    evaluations.begin("attacker")
    threads = [await aside_if_long(b"{}", "json", threading.get_ident)]
    evaluations.charge("attacker", 0.2)
    threads.append(await aside_if_long(b"{}", "json", threading.get_ident))
    evaluations.close()
    assert [thread == threading.get_ident() for thread in threads] == [True, False]


@shares_application
async def test_a_long_body_for_an_unknown_resource(shared_api: Client) -> None:
    """What is wrong with the path is messages before what is wrong with the body, however that was read."""
    body = b"nonsense" * 20_000
    assert (await shared_api.post(f"/apis/{GROUP}/v1/namespaces/default/none", body)).code == 404
    for path in (f"{WIDGETS}/none", f"{DEFINITIONS}/none.example.com"):
        assert failure(await shared_api.patch(path, body), 400, "BadRequest")["message"] == "invalid JSON patch"
        failure(await shared_api.patch(path, b'{"a": "' + body + b'"}'), 404, "NotFound")
    failure(await shared_api.delete(f"{WIDGETS}/none", body), 400, "BadRequest")


@pytest.mark.slow
async def test_other_requests_are_served_while_a_hostile_body_is_decoded(api: Client) -> None:
    """Three megabytes that take the exact scanner as long as it can be made to take."""
    await make(api, "a")
    hostile = b'{"a":1,"a":[' + b"[[]]," * 600_000 + b"1]}"
    assert len(hostile) < LIMIT
    reading = asyncio.create_task(api.post(WIDGETS, hostile))
    served = 0
    while not reading.done():
        (await api.get(f"{WIDGETS}/a")).ok()
        served += 1
        await asyncio.sleep(0.005)
    failure(await reading, 413, "RequestEntityTooLarge")
    # Read where requests are served, it would let one or two of them pass, before and after.
    assert served > 4
