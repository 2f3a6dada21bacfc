"""Where requests come from: recorded exchanges, real definitions, and what the server serves in addition.

A Plan is a list of steps as tests/conformance/replay.py has them; its variables are expanded when it is played, since
later steps name what earlier ones were answered.
"""

from __future__ import annotations

import json
import os
import random
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests import fast_yaml
from tests.conformance.harness import SCENARIOS, replay
from tests.definitions.instances import instance
from tests.fuzz.calls import PREFIX, Call, parse_target

Json = Any
CRDS = f"{PREFIX}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Real definitions are not ours to commit (tests/definitions/test_real_definitions.py).
REAL = Path(os.environ.get("REGISTRY_REAL_DEFINITIONS") or Path(__file__).resolve().parents[3] / "shared" / "crds")


@dataclass(frozen=True)
class Plan:
    """`setup` is sent as it is, `steps` also mutated. `isolated`: only where nothing but loopback can be reached."""

    name: str
    setup: list[dict[str, Json]]
    steps: list[dict[str, Json]]
    isolated: bool = False


def sources() -> list[Path | None]:
    """Files of plans, in an order that is the same everywhere; None is what stands in none."""
    return [*sorted(SCENARIOS.rglob("*.yaml")), *sorted(REAL.glob("**/*.[yj]*")), None]


@cache  # reading one takes as long as a dozen requests
def plan_of(source: Path | None) -> Plan:
    if source is None:
        return _OWN
    return _recorded(source) if source.is_relative_to(SCENARIOS) else _real(source)


def _recorded(path: Path) -> Plan:
    text = path.read_text()
    setup, steps = replay.steps_of(fast_yaml.load(text))
    isolated = "clientConfig" in text or ("http" in text and "webhook" in text)
    return Plan(path.relative_to(SCENARIOS).as_posix(), setup, steps, isolated)


def _real(path: Path) -> Plan:
    crd = fast_yaml.load(path.read_text())
    crd.pop("status", None)
    spec = crd["spec"]
    spec.pop("conversion", None)
    [version] = [v for v in spec["versions"] if v["storage"]]
    place = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    base = f"/apis/{spec['group']}/{version['name']}/{place}{spec['names']['plural']}"
    head = {"apiVersion": f"{spec['group']}/{version['name']}", "kind": spec["names"]["kind"]}
    rng = random.Random(path.name)
    steps: list[dict[str, Json]] = [step_of("POST", CRDS.removeprefix(PREFIX) + "?dryRun=All", crd)]
    for number in range(4):
        made = instance_of(version["schema"]["openAPIV3Schema"], rng)
        body = {**made, **head, "metadata": {"name": f"a{number}", "labels": {"a": "b"}}}
        steps += [
            step_of("POST", base, body),
            step_of("PATCH", f"{base}/a{number}", {"spec": made.get("spec")}),
            step_of("PATCH", f"{base}/a{number}?fieldManager=m", body, "application/apply-patch+yaml"),
            step_of("PUT", f"{base}/a{number}", body),
            step_of("GET", base),
            step_of("GET", f"{base}/a{number}"),
        ]
    return Plan(path.name, [step_of("POST", CRDS.removeprefix(PREFIX), crd)], steps)


def step_of(method: str, path: str, body: Json = None, content_type: str = "") -> dict[str, Json]:
    request: dict[str, Json] = {"method": method, "path": path}
    if body is not None:
        request["body"] = body
    if content_type:
        request["headers"] = {"Content-Type": content_type}
    return {"request": request, "recorded": False}


def instance_of(schema: Json, rng: random.Random) -> dict[str, Json]:
    """An object of a schema; {} where none can be made up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from hypothesis, of examples outside of @given
        try:
            made: dict[str, Json] = instance(schema, rng)
        except Exception:  # a pattern that Python does not know, or that nothing matches
            made = {}
    return made


def _own_steps() -> list[dict[str, Json]]:
    """What kube-apiserver does not have: histories, usage, tenants, all tenants at once, documents."""
    maps = "/api/v1/namespaces/default/configmaps"
    made = {"metadata": {"name": "a"}, "data": {"a": "1"}}
    steps = [
        step_of("POST", maps, made),
        step_of("PATCH", f"{maps}/a", {"data": {"a": "2"}}),
        step_of("GET", f"{maps}/a/history"),
        step_of("GET", f"{maps}/a/history?diff=json&limit=1"),
        step_of("GET", f"{maps}/a?atResourceVersion=3"),
        step_of("POST", f"{maps}/a/restore", {"resourceVersion": "3"}),
        step_of("DELETE", f"{maps}/a"),
        step_of("GET", f"{maps}?deleted=true"),
        step_of("POST", f"{maps}/a/undelete", {}),
        step_of(
            "GET",
            f"{maps}?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        ),
        step_of("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {"audiences": ["a"]}}),
        step_of("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "a.b.c"}}),
        step_of(
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "spec": {
                    "user": "a",
                    "groups": ["b"],
                    "resourceAttributes": {
                        "verb": "get",
                        "resource": "pods",
                        "labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]},
                    },
                }
            },
        ),
    ]
    for path in (
        "/apis",
        "/api",
        "/api/v1",
        "/apis/apps/v1",
        "/openapi/v3/api/v1",
        "/openapi/v3",
        "/openapi/v2",
        "/version",
        "/healthz",
        "/readyz",
        "/metrics",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/console",
        "/console/",
        "/console/main.js",
        "/console/..%2f..%2fsettings.py",
    ):
        steps.append(step_of("GET", path))
    for resource in (
        "namespaces",
        "configmaps",
        "secrets",
        "services",
        "serviceaccounts",
        "events",
        "resourcequotas",
        "limitranges",
    ):
        steps.append(step_of("GET", f"/api/v1/{resource}?limit=2"))
    return steps


_OWN = Plan("own", [], _own_steps())
_TENANTS = "/apis/tenancy.registry/v1/tenants"
# Of all tenants: these have no tenant of the episode before them.
ELSEWHERE = tuple(
    Call("GET", *parse_target(target))
    for target in (
        f"/clusters/system{_TENANTS}",
        f"/clusters/system{_TENANTS}?usage=true",
        f"/clusters/system{_TENANTS}/default/usage",
        "/clusters/*/api/v1/configmaps",
        "/clusters/*/api/v1/configmaps?watch=true&timeoutSeconds=1",
        "/clusters/default,system/api/v1/namespaces?limit=1",
        "/clusters/*/apis",
        "/clusters/nope/api/v1/configmaps",
        "/clusters/system/api/v1/configmaps?deleted=true",
        "/metrics",
        "/apis",
    )
)


class Variables:
    """What `${...}` stands for while a plan is played."""

    def __init__(self, rng: random.Random, name: str, token: str) -> None:
        self._run = replay.Run(types.SimpleNamespace(headers={}), name)
        tail = "".join(rng.choices(replay.LETTERS, k=8))
        self._run.variables |= {
            "group": f"g{tail}.example.com",
            "ns": f"ns-{tail}",
            "tail": tail,
            "token": token,
            "webhook.url": "https://127.0.0.1:9/hook",
            "webhook.caBundle": "YQ==",
            "webhook.otherCaBundle": "YQ==",
        }

    def call(self, step: dict[str, Json]) -> Call | None:
        """The request of a step; None for what is none, or names what no answer had."""
        if "request" not in step:
            return None
        try:
            request = self._run.expand(step["request"]) if step.get("recorded", True) else self._named(step["request"])
            who = self._run.expand(replay.identity(step))
        except (LookupError, TypeError):
            return None
        headers = [(name.lower(), str(value)) for name, value in (request.get("headers") or {}).items()]
        if "raw" in request or "body" in request:
            usual = "application/merge-patch+json" if request["method"] == "PATCH" else "application/json"
            headers += [] if any(name == "content-type" for name, _ in headers) else [("content-type", usual)]
        path, query = parse_target(request["path"])
        raw = request["raw"].encode("utf-8", "replace") if "raw" in request else None
        return Call(
            request["method"].upper(), PREFIX + path, query, (*headers, *_identity(who)), request.get("body"), raw
        )

    def _named(self, value: Json) -> Json:
        """With the names of this play; any other `${...}` is a text of the definition."""
        if isinstance(value, str):
            for name in ("group", "ns", "tail"):
                value = value.replace(f"${{{name}}}", self._run.variables[name])
            return value
        if isinstance(value, dict):
            return {self._named(key): self._named(member) for key, member in value.items()}
        return [self._named(item) for item in value] if isinstance(value, list) else value

    def learn(self, step: dict[str, Json], body: bytes) -> None:
        try:
            self._run.answers[str(step.get("name"))] = json.loads(body)
        except ValueError:
            pass


def _identity(who: dict[str, Json]) -> Iterator[tuple[str, str]]:
    if "as" in who:
        yield "impersonate-user", str(who["as"])
    for group in who.get("as_groups") or ():
        yield "impersonate-group", str(group)
    if "as_uid" in who:
        yield "impersonate-uid", str(who["as_uid"])
    if who.get("token"):
        yield "authorization", f"Bearer {who['token']}"
