"""Audit events of real requests, in a file and in the database."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from registry.audit import log as audited
from registry.audit.sinks import LOST, LogFile, Sinks, line_of, with_retries
from registry.codec.protobuf.envelope import encode_object
from registry.settings.declarations import Settings, SettingsError
from registry.store.errors import Unavailable, ValueRefused
from tests.api.client import eventually
from tests.api.widgets import GROUP, WIDGETS, define, definition, widget
from tests.application import TOKEN
from tests.audit.auditing import EVERYTHING, auditing

SECRETS = "/api/v1/namespaces/default/secrets"
PROTOBUF = "application/vnd.kubernetes.protobuf"
METADATA = EVERYTHING.replace("RequestResponse", "Metadata")


def events(folder: Path) -> list[dict[str, Any]]:
    """All that has been written, without the controllers' own start."""
    return [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]


async def test_fields_of_an_event(api_database: str, tmp_path: Path) -> None:
    async with auditing(api_database, tmp_path, EVERYTHING) as api:
        made = (
            await api.post(
                f"{WIDGETS}?fieldManager=me",
                widget("a", size=1),
                headers={"user-agent": "tests/1", "audit-id": "named-by-me"},
            )
        ).ok(201)
    received, complete = events(tmp_path)
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    for event in (received, complete):
        assert (event["kind"], event["apiVersion"]) == ("Event", "audit.k8s.io/v1")
        assert event["auditID"] == "named-by-me"
        assert event["level"] == "RequestResponse"
        assert event["verb"] == "create"
        assert event["requestURI"] == f"{WIDGETS}?fieldManager=me"
        assert event["user"] == {
            "username": "admin",
            "uid": "admin",
            "groups": ["system:masters", "system:authenticated"],
        }
        assert event["sourceIPs"] == ["127.0.0.1"]
        assert event["userAgent"] == "tests/1"
        named = {"name": "a"} if event is complete else {}
        assert event["objectRef"] == {
            "resource": "widgets",
            "namespace": "default",
            "apiGroup": "test.example.com",
            "apiVersion": "v1",
            **named,
        }
        assert event["annotations"]["tenancy.registry/tenant"] == "default"
    assert complete["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert complete["responseStatus"] == {"metadata": {}, "code": 201}
    assert complete["requestObject"]["spec"] == {"size": 1}
    assert complete["responseObject"] == made
    assert complete["requestReceivedTimestamp"] == received["stageTimestamp"] <= complete["stageTimestamp"]


async def test_objects_are_named_by_their_bodies(api_database: str, tmp_path: Path) -> None:
    """At every level, since a policy of the level Metadata is to tell who created what."""
    async with auditing(api_database, tmp_path, METADATA) as api:
        made = (await api.post(WIDGETS, widget("a", replicas=1))).ok(201)
        (await api.put(f"{WIDGETS}/a", {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})).ok()
        scale = (await api.get(f"{WIDGETS}/a/scale")).ok()
        (await api.put(f"{WIDGETS}/a/scale", {**scale, "spec": {"replicas": 2}})).ok()
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        (await api.post(SECRETS, encode_object(secret), content_type=PROTOBUF)).ok(201)
        (await api.post(SECRETS, {"metadata": {"generateName": "s-"}})).ok(201)
        assert (await api.post(WIDGETS, {"kind": "Widget"})).code == 400
        (await api.patch(f"{WIDGETS}/a", {"metadata": {"uid": made["metadata"]["uid"]}})).ok()
    found = [event["objectRef"] for event in events(tmp_path) if event["stage"] == "ResponseComplete"]
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    references = [{key: ref.get(key) for key in ("name", "uid", "resourceVersion")} for ref in found]
    assert references == [
        {"name": "a", "uid": None, "resourceVersion": None},
        {"name": "a", "uid": uid, "resourceVersion": version},
        {"name": "a", "uid": None, "resourceVersion": None},  # the get
        {"name": "a", "uid": uid, "resourceVersion": scale["metadata"]["resourceVersion"]},
        {"name": "s", "uid": None, "resourceVersion": None},
        {"name": None, "uid": None, "resourceVersion": None},
        {"name": None, "uid": None, "resourceVersion": None},
        {"name": "a", "uid": None, "resourceVersion": None},
    ]


async def test_bodies_in_protobuf(api_database: str, tmp_path: Path) -> None:
    """client-go's typed clients send and read them by default."""
    maps = "/api/v1/namespaces/default/configmaps"
    sent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "x" * 20_000}}
    options = {"accept": PROTOBUF, "content_type": PROTOBUF}
    async with auditing(api_database, tmp_path, EVERYTHING) as api:
        assert (await api.post(maps, encode_object(sent), **options)).code == 201
        made = (await api.get(f"{maps}/a")).ok()
        assert (await api.get(f"{maps}/b", accept=PROTOBUF)).code == 404
        deletion = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        assert (await api.delete(f"{maps}/a", encode_object(deletion), **options)).code == 200
    create, _, missing, delete = [event for event in events(tmp_path) if event["stage"] == "ResponseComplete"]
    assert create["requestObject"]["data"] == sent["data"]
    assert create["responseObject"] == made
    assert missing["responseStatus"]["message"] == 'configmaps "b" not found'
    assert delete["requestObject"] == deletion
    assert delete["responseStatus"]["status"] == "Success"


async def test_addresses_agents_and_deletions(api_database: str, tmp_path: Path) -> None:
    claims = {"x-forwarded-for": "010.0.0.1, nonsense, ::1", "x-real-ip": "10.0.0.2", "user-agent": "x" * 2000}
    async with auditing(api_database, tmp_path, METADATA) as api:
        (await api.post(WIDGETS, widget("a"))).ok(201)
        gone = (await api.delete(f"{WIDGETS}/a", headers=claims)).ok()
    event = events(tmp_path)[-1]
    assert event["sourceIPs"] == ["10.0.0.1", "::1", "10.0.0.2", "127.0.0.1"]
    assert event["userAgent"] == "x" * 1024 + "...TRUNCATED"
    assert event["responseStatus"] == {"metadata": {}, "status": "Success", "details": gone["details"], "code": 200}
    assert "responseObject" not in event


async def test_deprecated_versions_and_issued_tokens_are_annotated(api_database: str, tmp_path: Path) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    async with auditing(api_database, tmp_path, METADATA) as api:
        await define(api, definition("old", "Old", deprecated=True))
        (await api.get(f"/apis/{GROUP}/v1/namespaces/default/old")).ok()
        (await api.post(accounts, {"metadata": {"name": "t"}})).ok(201)
        token = (await api.post(f"{accounts}/t/token", {"spec": {}})).ok(201)["status"]["token"]
    annotations = {e["requestURI"]: e["annotations"] for e in events(tmp_path) if e["stage"] == "ResponseComplete"}
    assert annotations[f"/apis/{GROUP}/v1/namespaces/default/old"]["k8s.io/deprecated"] == "true"
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    issued = annotations[f"{accounts}/t/token"]["authentication.kubernetes.io/issued-credential-id"]
    assert issued == f"JTI={claims['jti']}"
    assert "k8s.io/deprecated" not in annotations[accounts]


async def test_a_changed_policy_is_loaded_and_a_broken_one_is_ignored(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audited, "CHECK_SECONDS", 0.01)
    file = tmp_path / "policy.yaml"

    async def levels() -> set[str]:
        """Of the events of one more request."""
        audit_id = (await api.get(WIDGETS)).header("audit-id")
        return {event["level"] for event in events(tmp_path) if event["auditID"] == audit_id}

    async def become(wanted: set[str]) -> None:
        async def so() -> bool:
            return await levels() == wanted

        await eventually(so)

    async with auditing(api_database, tmp_path, METADATA) as api:
        await become({"Metadata"})
        file.write_text(EVERYTHING)
        await become({"RequestResponse"})
        for broken in ("rules: [", METADATA.replace("Metadata", "Everything")):
            caplog.clear()
            file.write_text(broken)

            async def is_recorded() -> bool:
                return "the previous one stays in force" in caplog.text

            await eventually(is_recorded)
            assert await levels() in ({"RequestResponse"}, set())
        file.write_text(METADATA)
        await become({"Metadata"})


async def test_responses_have_the_audit_id(api_database: str, tmp_path: Path) -> None:
    async with auditing(api_database, tmp_path, METADATA) as api:
        answer = await api.get(WIDGETS)
    assert {event["auditID"] for event in events(tmp_path)} == {answer.header("audit-id")}


async def test_failed_and_unauthenticated_requests(api_database: str, tmp_path: Path) -> None:
    async with auditing(api_database, tmp_path, METADATA) as api:
        assert (await api.get(f"{WIDGETS}/absent")).code == 404
        assert (await api.with_token("nobody's").get(WIDGETS)).code == 401
        assert (await api.get(WIDGETS, headers={"impersonate-user": "guest"})).code == 403
    absent, stranger, guest = [e for e in events(tmp_path) if e["stage"] != "RequestReceived"]
    assert absent["responseStatus"]["reason"] == "NotFound"
    assert "requestObject" not in absent
    assert (stranger["user"], stranger["stage"], stranger["responseStatus"]["code"]) == ({}, "ResponseStarted", 401)
    assert guest["user"]["username"] == "admin"
    assert guest["impersonatedUser"]["username"] == "guest"
    assert guest["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    assert guest["annotations"]["authorization.k8s.io/decision"] == "forbid"


async def test_an_answer_to_a_stranger_is_recorded(api_database: str, tmp_path: Path) -> None:
    async with auditing(api_database, tmp_path, EVERYTHING) as api:
        refused = await api.with_token("nobody's").get(WIDGETS)
    [event] = [e for e in events(tmp_path) if e["stage"] != "RequestReceived"]
    assert (event["stage"], event["responseObject"]) == ("ResponseStarted", refused.json)


async def test_no_secret_is_ever_recorded(api_database: str, tmp_path: Path) -> None:
    secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "stringData": {"x": "hidden-text"}}
    tokens = "/api/v1/namespaces/default/serviceaccounts/default/token"
    review = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": "hidden-text"}}
    async with auditing(api_database, tmp_path, EVERYTHING) as api:
        (await api.post(SECRETS, secret)).ok(201)
        (await api.get(SECRETS)).ok()
        (await api.patch(f"{SECRETS}/s", {"stringData": {"x": "hidden-text"}})).ok()
        asked = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
        given = await api.post(tokens, asked)
        (await api.post("/apis/authentication.k8s.io/v1/tokenreviews", review)).ok(201)
    text = (tmp_path / "audit.log").read_text()
    assert "hidden-text" not in text
    assert "aGlkZGVuLXRleHQ" not in text
    assert TOKEN not in text
    if given.code == 201:
        assert given.json["status"]["token"] not in text
    assert {event["level"] for event in events(tmp_path)} == {"Metadata"}


async def test_watches_and_managed_fields(api_database: str, tmp_path: Path) -> None:
    policy = EVERYTHING + "omitManagedFields: true\nomitStages: [RequestReceived]\n"
    async with auditing(api_database, tmp_path, policy) as api:
        (await api.post(WIDGETS, widget("a", size=1))).ok(201)
        (await api.get(WIDGETS)).ok()
        async with api.watch(f"{WIDGETS}?watch=true") as watch:
            await watch.event()
    made, listed, started, ended = events(tmp_path)
    assert "managedFields" not in made["responseObject"]["metadata"]
    assert "managedFields" not in listed["responseObject"]["items"][0]["metadata"]
    assert (started["stage"], started["verb"], ended["stage"]) == ("ResponseStarted", "watch", "ResponseComplete")
    assert "responseObject" not in ended


@pytest.mark.parametrize("form", ["application/json", "application/yaml"])
async def test_long_lists_are_recorded(api_database: str, tmp_path: Path, form: str) -> None:
    """The event of a list of more than 128 KiB was lost, and its connection ended."""
    path = "/api/v1/namespaces/default/configmaps"
    async with auditing(api_database, tmp_path, EVERYTHING + "omitStages: [RequestReceived]\n") as api:
        for i in range(3):
            (await api.post(path, {"metadata": {"name": f"m{i}"}, "data": {"a": "x" * 100_000}})).ok(201)
        assert (await api.get(path, accept=form)).code == 200
    [listed] = [event for event in events(tmp_path) if event["verb"] == "list"]
    # In the namespace there is the config map of the CA, too.
    assert [len(item["data"].get("a", "")) for item in listed["responseObject"]["items"]] == [0, *[100_000] * 3]


async def test_events_are_written_to_the_database(api_database: str, tmp_path: Path) -> None:
    async with auditing(api_database, tmp_path, EVERYTHING, audit_log_path=None, audit_to_database=True) as api:
        (await api.post(WIDGETS, widget("a", free={"x": "nul \x00 and \\u0000"}))).ok(201)
    with psycopg.connect(api_database) as connection:
        rows = connection.execute(
            "SELECT tenant, username, verb, resource, namespace, name, code, event FROM audit_events ORDER BY at"
        ).fetchall()
    assert [row[:7] for row in rows] == [
        ("default", "admin", "create", "widgets.test.example.com", "default", None, None),
        ("default", "admin", "create", "widgets.test.example.com", "default", "a", 201),
    ]
    assert rows[1][7]["requestObject"]["spec"]["free"] == {"x": "nul \ufffd and \\u0000"}


async def test_names_of_any_length_are_audited_in_the_database(api_database: str, tmp_path: Path) -> None:
    """One path with a name of 3 kB, which needs no credential, lost the events of others in the same batch."""
    name = base64.b32encode(os.urandom(20_000)).decode().lower()
    other = "\N{FERRIS WHEEL}" * 1_000
    async with auditing(api_database, tmp_path, METADATA, audit_log_path=None, audit_to_database=True) as api:
        before = LOST._value.get()
        for path in (
            f"{WIDGETS}/{name}",
            f"/api/v1/namespaces/{name}/configmaps/{name}",
            f"/apis/{name}/v1/{name}",
            f"/api/v1/namespaces/{quote(other)}/configmaps/{quote(other)}",
        ):
            await api.with_token("").get(path)
    assert LOST._value.get() == before
    with psycopg.connect(api_database) as connection:
        rows = connection.execute(
            "SELECT name, event FROM audit_events WHERE namespace = 'default' ORDER BY at"
        ).fetchall()
    assert [(found, event["objectRef"]["name"] == name) for found, event in rows] == [(name[:150], True)] * 2


async def test_an_event_that_the_database_refuses_takes_no_other_with_it() -> None:
    written: list[bytes] = []

    async def insert(lines: Sequence[bytes]) -> None:
        if any(b"bad" in line for line in lines):
            raise ValueRefused("no")
        written.extend(lines)

    before = LOST._value.get()
    sinks = Sinks([with_retries(insert)])
    for i in range(20):
        sinks.put("", line_of({"a": "bad" if i in (3, 4, 17) else str(i)}))
    sinks.put("", line_of({"a": "\ud800"}))
    await sinks.aclose()
    assert len(written) == 17
    assert LOST._value.get() == before + 4


async def test_events_that_cannot_be_written_are_counted() -> None:
    async def fails(lines: Sequence[bytes]) -> None:
        raise Unavailable("away")

    before = LOST._value.get()
    sinks = Sinks([fails])
    for _ in range(3):
        sinks.put("", line_of({"a": 1}))
    await sinks.aclose()
    assert LOST._value.get() == before + 3


def test_a_full_file_is_rotated_and_the_oldest_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    one, other = LogFile(path, 30, 2), LogFile(path, 30, 2)
    for number in range(6):
        (one if number % 2 else other).write_now(b'{"number": "%02d......."}\n' % number)
    one.close()
    other.close()
    kept = sorted(tmp_path.glob("audit-*.log"))
    assert [file.read_text()[12:14] for file in [*kept, path]] == ["03", "04", "05"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_removed_is_created_again(tmp_path: Path) -> None:
    file = LogFile(tmp_path / "audit.log", 1000, 2)
    file.write_now(b"1\n")
    (tmp_path / "audit.log").rename(tmp_path / "moved")
    file.write_now(b"2\n")
    file.close()
    assert (tmp_path / "audit.log").read_bytes() == b"2\n"


@pytest.mark.parametrize("name", ["audit_policy_file", "audit_log_path"])
def test_a_policy_requires_a_destination(tmp_path: Path, name: str) -> None:
    given: dict[str, Any] = {name: tmp_path / "file"}
    with pytest.raises(SettingsError, match="goes together"):
        Settings(data_dir=tmp_path, **given)
