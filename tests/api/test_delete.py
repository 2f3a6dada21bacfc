"""Delete and deletecollection: responses, preconditions, options, selectors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, WIDGETS, make, names_of, widget
from tests.application import shares_application, shares_tenant

pytestmark = [shares_application, shares_tenant]


A = f"{WIDGETS}/a"
J, Y = "application/json", "application/yaml"


async def test_the_response_is_a_success_with_the_uid(api: Client) -> None:
    [made] = await make(api, "a")
    status = (await api.delete(A)).ok(200)
    assert status == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": status["metadata"]["resourceVersion"]},
        "status": "Success",
        "details": {"name": "a", "group": GROUP, "kind": "widgets", "uid": made["metadata"]["uid"]},
    }
    failure(await api.get(A), 404, "NotFound")
    failure(await api.delete(A), 404, "NotFound")


@pytest.mark.parametrize(
    "query, finalizers, code",
    [
        pytest.param("?orphanDependents=false", ["a.example.com/b"], 202, id="held"),
        pytest.param("?orphanDependents=false&dryRun=All", ["a.example.com/b"], 202, id="held in a dry run"),
        pytest.param("?orphanDependents=false", [], 200, id="gone"),
        pytest.param("?orphanDependents=true", ["a.example.com/b"], 200, id="orphaned"),
        pytest.param("?propagationPolicy=Background", ["a.example.com/b"], 200, id="held by the newer option"),
    ],
)
async def test_only_orphan_dependents_returns_202_for_an_object_with_finalizers(
    api: Client, query: str, finalizers: list[str], code: int
) -> None:
    made = widget("a")
    made["metadata"]["finalizers"] = finalizers
    (await api.post(WIDGETS, made)).ok(201)
    assert (await api.delete(A + query)).code == code
    (await api.patch(A, {"metadata": {"finalizers": None}}))


async def test_a_name_can_be_used_again_for_another_object(api: Client) -> None:
    [first] = await make(api, "a")
    (await api.delete(A)).ok()
    [second] = await make(api, "a")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


@pytest.mark.parametrize("precondition", [{"uid": "other"}, {"resourceVersion": "1"}], ids=lambda p: next(iter(p)))
async def test_failed_preconditions(api: Client, precondition: dict[str, str]) -> None:
    await make(api, "a")
    failure(await api.delete(A, {"preconditions": precondition}), 409, "Conflict")
    (await api.get(A)).ok()


@pytest.mark.parametrize("query", ["uid=other", "resourceVersion=0"])
@pytest.mark.parametrize("path", ["/a", ""], ids=["an object", "a collection"])
async def test_failed_preconditions_of_the_query(api: Client, path: str, query: str) -> None:
    await make(api, "a")
    failure(await api.delete(f"{WIDGETS}{path}?{query}"), 409, "Conflict")
    (await api.get(A)).ok()


async def test_satisfied_preconditions_of_the_query(api: Client) -> None:
    [made] = await make(api, "a")
    meta = made["metadata"]
    (await api.delete(f"{A}?uid={meta['uid']}&resourceVersion={meta['resourceVersion']}")).ok(200)


async def test_a_body_replaces_the_preconditions_of_the_query(api: Client) -> None:
    await make(api, "a")
    (await api.delete(f"{A}?uid=other", {"gracePeriodSeconds": 0})).ok(200)


async def test_satisfied_preconditions(api: Client) -> None:
    [made] = await make(api, "a")
    meta = made["metadata"]
    body = {"preconditions": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}}
    (await api.delete(A, body)).ok(200)


BAD_OPTIONS: dict[str, tuple[str, Any, int]] = {
    "an unknown policy": ("", {"propagationPolicy": "Sideways"}, 422),
    "two policies": ("", {"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
    "a dry run of something": ("?dryRun=Some", None, 422),
    "a body that is no object": ("", "[1]", 400),
    "a body that is no json": ("", "{", 400),
    "a grace period that is a word": ("?gracePeriodSeconds=soon", None, 400),
}


@pytest.mark.parametrize("query, body, code", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
async def test_bad_options_delete_nothing(api: Client, query: str, body: Any, code: int) -> None:
    await make(api, "a")
    failure(await api.delete(A + query, body), code, {400: "BadRequest", 422: "Invalid"}[code])
    (await api.get(A)).ok()


_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_NO_POLICY = (
    'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "": '
    'supported values: "Foreground", "Background", "Orphan", "nil"'
)
_FIELD = "json: cannot unmarshal {} into Go struct field {}"
WORDS_OF_BAD_OPTIONS = {
    "a list": (
        "",
        "[1]",
        J,
        f"couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type {_META}",
    ),
    "a kind that is no text": (
        "",
        '{"kind":1}',
        J,
        f"couldn't get version/kind; json parse error: {_FIELD.format('number', '.kind of type string')}",
    ),
    "a version with two slashes": ("", '{"apiVersion":"a/b/c","dryRun":5}', J, "unexpected GroupVersion string: a/b/c"),
    "no YAML": ("", "{", Y, "yaml: line 1: did not find expected node content"),
    "an empty policy in the query": ("?propagationPolicy=", "", J, _NO_POLICY),
    "an empty policy in the body": ("", '{"propagationPolicy":""}', J, _NO_POLICY),
    "a grace period with a fraction": (
        "",
        '{"gracePeriodSeconds":1.5}',
        J,
        _FIELD.format("number 1.5", "DeleteOptions.gracePeriodSeconds of type int64"),
    ),
    "a uid that is no text": (
        "",
        '{"preconditions":{"uid":1}}',
        J,
        _FIELD.format("number", "Preconditions.preconditions.uid of type types.UID"),
    ),
    "a dry run of numbers": ("", '{"dryRun":[1]}', J, _FIELD.format("number", "DeleteOptions.dryRun of type string")),
    "a policy that JSON escapes": (
        "",
        '{"propagationPolicy":"<"}',
        J,
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "\\u003c": '
        'supported values: "Foreground", "Background", "Orphan", "nil"',
    ),
    "an option that nobody has turned on": (
        "",
        '{"ignoreStoreReadErrorWithClusterBreakingPotential":1}',
        Y,
        _FIELD.format("number", "DeleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential of type bool"),
    ),
}


@pytest.mark.parametrize("query, body, media_type, words", WORDS_OF_BAD_OPTIONS.values(), ids=WORDS_OF_BAD_OPTIONS)
async def test_error_texts_of_invalid_options(api: Client, query: str, body: str, media_type: str, words: str) -> None:
    """Those of Go, where a type is wrong: what has to be a text is never used as one."""
    for path in (A, WIDGETS):
        answer = await api.delete(path + query, body or None, content_type=media_type)
        assert (answer.code, answer.json["message"]) == (422 if "Unsupported value" in words else 400, words)


BAD_BODY, WRONG_OPTIONS = "{", '{"propagationPolicy":"huh"}'
# Each request has two faults or more; upstream reports the first by the order of its handler (handlers/delete.go).
FIRST_OF_TWO: dict[str, tuple[str, str, str, str, str]] = {
    "selector, body": (WIDGETS, "?labelSelector=a=b=c", BAD_BODY, J, "found '='"),
    "selector, media type": (WIDGETS, "?labelSelector=a=b=c", BAD_BODY, "text/html", "found '='"),
    "limit, media type": (WIDGETS, "?limit=x", BAD_BODY, "text/html", "strconv.ParseInt"),
    "list options, body": (WIDGETS, "?resourceVersionMatch=Exact", BAD_BODY, J, "ListOptions.meta.k8s.io"),
    "list options, field": (WIDGETS, "?resourceVersionMatch=Exact&fieldSelector=x=1", "", J, "ListOptions.meta.k8s.io"),
    "field, body": (WIDGETS, "?fieldSelector=x=1", BAD_BODY, J, "field label not supported: x"),
    "field, options in the query": (WIDGETS, "?fieldSelector=x=1&dryRun=no", "", J, "field label not supported: x"),
    "media type, options": (
        WIDGETS,
        "",
        WRONG_OPTIONS,
        "text/html",
        "the body of the request was in an unknown format",
    ),
    "options, token": (WIDGETS, "?continue=nonsense!", WRONG_OPTIONS, J, "DeleteOptions.meta.k8s.io"),
    "options, revision": (WIDGETS, "?resourceVersion=x", WRONG_OPTIONS, J, "DeleteOptions.meta.k8s.io"),
    "one object: media type, body": (A, "", BAD_BODY, "text/html", "the body of the request was in an unknown format"),
    "one object: options, missing": (A, "?dryRun=no", "", J, "DeleteOptions.meta.k8s.io"),
}


@pytest.mark.parametrize("path, query, body, media_type, words", FIRST_OF_TWO.values(), ids=FIRST_OF_TWO)
async def test_the_first_error_is_reported(
    api: Client, path: str, query: str, body: str, media_type: str, words: str
) -> None:
    answer = await api.delete(path + query, body or None, content_type=media_type)
    assert words in answer.json["message"]


@pytest.mark.parametrize(
    "body, media_type",
    [
        ({"Kind": "Pod"}, "application/json"),
        ('{"kind": "DeleteOptions", "KIND": "Pod"}', "application/json"),
        ("kind: Pod\nKIND: DeleteOptions\n", "application/yaml"),
    ],
)
async def test_the_kind_of_a_body_may_be_in_any_case(api: Client, body: Any, media_type: str) -> None:
    """encoding/json looks for it so: the last one counts, of the sorted ones in YAML."""
    await make(api, "a")
    answer = await api.delete(A, body, content_type=media_type)
    assert failure(answer, 400, "BadRequest")["message"].startswith('no kind "Pod" is registered for version')
    (await api.get(A)).ok()


async def test_options_can_be_yaml(api: Client) -> None:
    await make(api, "a")
    options = "kind: DeleteOptions\napiVersion: v1\ndryRun: [All]\n"
    answer = await api.delete(A, options, content_type="application/yaml")
    assert answer.ok(200)["status"] == "Success"
    (await api.get(A)).ok()


async def test_delete_collection_honours_selectors(api: Client) -> None:
    await make(api, "a", "b", color="red")
    await make(api, "c", color="blue")
    (await api.post(WIDGETS, widget("d", labels={"keep": "no"}))).ok()
    gone = (await api.delete(f"{WIDGETS}?fieldSelector=spec.color=red")).ok(200)
    assert gone["kind"] == "WidgetList"
    assert names_of(gone) == ["a", "b"]
    (await api.delete(f"{WIDGETS}?labelSelector=keep=no")).ok()
    assert names_of((await api.get(WIDGETS)).ok()) == ["c"]
    (await api.delete(WIDGETS)).ok()
    assert names_of((await api.get(WIDGETS)).ok()) == []


@pytest.mark.parametrize("match", ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"])
async def test_delete_collection_at_a_future_revision(api: Client, match: str) -> None:
    await make(api, "a")
    answer = await api.delete(f"{WIDGETS}?resourceVersion=999999999{match}")
    assert "Too large resource version: 999999999" in failure(answer, 504, "Timeout")["message"]
    (await api.get(A)).ok()


async def test_delete_collection_at_a_revision_deletes_what_was_there(api: Client) -> None:
    before = (await api.get(WIDGETS)).ok()["metadata"]["resourceVersion"]
    await make(api, "a")
    assert names_of((await api.delete(f"{WIDGETS}?resourceVersion={before}")).ok()) == []
    (await api.get(A)).ok()


@pytest.mark.parametrize("options", ["limit=1", "limit=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"])
async def test_delete_collection_that_asks_for_a_watch_keeps_its_limit(api: Client, options: str) -> None:
    await make(api, "a", "b")
    assert names_of((await api.delete(f"{WIDGETS}?watch=true&{options}")).ok()) == ["a"]
    assert names_of((await api.get(WIDGETS)).ok()) == ["b"]


async def test_delete_collection_at_no_revision_that_asks_for_a_watch(api: Client) -> None:
    await make(api, "a")
    failure(await api.delete(f"{WIDGETS}?watch=true&resourceVersion=x"), 400, "BadRequest")
    (await api.get(A)).ok()


async def test_delete_collection_with_dry_run(api: Client) -> None:
    await make(api, "a", "b")
    (await api.delete(f"{WIDGETS}?dryRun=All")).ok()
    assert names_of((await api.get(WIDGETS)).ok()) == ["a", "b"]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_protected_namespaces_cannot_be_deleted(api: Client, name: str) -> None:
    status = failure(await api.delete(f"{NAMESPACES}/{name}"), 403, "Forbidden")
    assert status["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


async def test_deletion_of_a_missing_definition(api: Client) -> None:
    failure(await api.delete(f"{DEFINITIONS}/none.example.com"), 404, "NotFound")


@pytest.mark.parametrize(
    "kind, version, message",
    [
        ("Status", "v1", "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"),
        ("UpdateOptions", "x/v2", "converting (v1.UpdateOptions) to (v1.DeleteOptions): unknown conversion"),
        ("Table", "", "converting (v1.Table) to (v1.DeleteOptions): unknown conversion"),
        (
            "PartialObjectMetadataList",
            "meta.k8s.io/v1beta1",
            "converting (v1beta1.PartialObjectMetadataList) to (v1.DeleteOptions): unknown conversion",
        ),
        ("ListOptions", "v1", 'no kind "ListOptions" is registered for version "v1" in scheme'),
        ("Widget", "", 'no kind "Widget" is registered for version "meta.k8s.io/v1" in scheme'),
        ('Wid"get', "a\nb", r'no kind "Wid\"get" is registered for version "a\nb" in scheme'),
        ("Widget", "x/__internal", 'no kind "Widget" is registered for the internal version of group "x" in scheme'),
    ],
)
async def test_a_body_of_another_kind(api: Client, kind: str, version: str, message: str) -> None:
    """As recorded from kube-apiserver 1.36.2."""
    await make(api, "a")
    status = failure(await api.delete(A, {"kind": kind, "apiVersion": version}), 400, "BadRequest")
    assert status["message"].startswith(message)
    (await api.get(A)).ok()
