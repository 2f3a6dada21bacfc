"""What was authorized restricts what is answered: a user of one resourceName sees nothing of other objects.

Every resource that discovery tells of, every query that lists, watches or looks back, by a user whose only rule is
`resourceNames: [mine]` on everything. What shows of the other objects is found by a word that each has in its labels,
annotations or content, and by their uids.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
import pytest_asyncio

from registry.api.answers import DocumentAnswer, Event, ListAnswer, WatchAnswer
from registry.api.confining import confined
from registry.api.request import ResourceRequest
from tests.api.client import PARTIAL, PARTIAL_LIST, TABLE, Answer, Body, Client, eventually
from tests.api.errors import failure
from tests.api.widgets import (
    ALL_WIDGETS,
    DEFINITIONS,
    NAMESPACES,
    WIDGETS,
    define,
    definition,
    make,
    names_of,
    widget,
    widgets_definition,
)
from tests.application import serving
from tests.databases import temporary_database

# `mine` is authorized, `theirs` is asked for by name, nobody asks for the third.
MINE, THEIRS, HIDDEN = "mine", "theirs", "vermilion"
WORD = "turquoise"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PLACES = ("default", "elsewhere")


class Kind(NamedTuple):
    """A resource, and what its objects need beside a name. `group` ends the names of definitions."""

    path: str
    namespaced: bool
    body: Mapping[str, Any] = {}
    group: str = ""
    # Where objects are made, if it is elsewhere.
    made_at: str = ""

    def collection(self, namespace: str = "default", prefix: str = "") -> str:
        base, _, plural = self.path.rpartition("/")
        return f"{base}{prefix}/namespaces/{namespace}/{plural}" if self.namespaced else f"{base}{prefix}/{plural}"

    @property
    def places(self) -> Sequence[str]:
        return PLACES if self.namespaced else PLACES[:1]

    def named(self, name: str) -> str:
        return f"{name}.{self.group}" if self.group else name

    def object(self, name: str, place: str) -> dict[str, Any]:
        made: dict[str, Any] = dict(self.body)
        if "kind" in made:
            made["apiVersion"] = "/".join(self.path.split("/")[2:4])
        if "involvedObject" in made:
            made["involvedObject"] = {**made["involvedObject"], "namespace": place}
        if self.body.get("kind") == "APIService":
            spec = {"version": name, "group": self.group, "groupPriorityMinimum": 1000, "versionPriority": 15}
            made["spec"] = spec
        elif self.group:
            made = definition(name, name.title(), group=self.group)
        foreign = name != MINE
        labels = {"both": "yes", **({"word": WORD} if foreign else {})}
        return {
            **made,
            "metadata": {"name": self.named(name), "labels": labels, "annotations": {"word": WORD} if foreign else {}},
        }


_ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_POLICY = {
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["none.example.com"],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["nones"],
                }
            ]
        },
        "validations": [{"expression": "true"}],
    }
}
_MUTATION = {
    "spec": {
        **_POLICY["spec"],
        "reinvocationPolicy": "Never",
        "validations": None,
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
    }
}
_EVENT = {
    "involvedObject": {"kind": "Widget", "name": "x"},
    "reason": "r",
    "message": "m",
    "type": "Normal",
    "reportingComponent": "c",
    "reportingInstance": "i",
}

KINDS: dict[str, Kind] = {
    "configmaps": Kind("/api/v1/configmaps", True, {"data": {"word": "w"}}),
    "events": Kind("/api/v1/events", True, _EVENT),
    "limitranges": Kind("/api/v1/limitranges", True, {"spec": {"limits": []}}),
    "namespaces": Kind("/api/v1/namespaces", False),
    "resourcequotas": Kind("/api/v1/resourcequotas", True, {"spec": {"hard": {"configmaps": "500"}}}),
    "secrets": Kind("/api/v1/secrets", True, {"stringData": {"a": "b"}}),
    "serviceaccounts": Kind("/api/v1/serviceaccounts", True),
    "services": Kind("/api/v1/services", True, {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}),
    "events.events.k8s.io": Kind("/apis/events.k8s.io/v1/events", True, _EVENT, made_at="/api/v1/events"),
    "clusterrolebindings.rbac.authorization.k8s.io": Kind(f"{RBAC}/clusterrolebindings", False, {"roleRef": _ROLE_REF}),
    "clusterroles.rbac.authorization.k8s.io": Kind(f"{RBAC}/clusterroles", False),
    "rolebindings.rbac.authorization.k8s.io": Kind(f"{RBAC}/rolebindings", True, {"roleRef": _ROLE_REF}),
    "roles.rbac.authorization.k8s.io": Kind(f"{RBAC}/roles", True),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": Kind(
        f"{_ADMISSION}/mutatingadmissionpolicies", False, _MUTATION
    ),
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": Kind(
        f"{_ADMISSION}/mutatingadmissionpolicybindings", False, {"spec": {"policyName": "none"}}
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Kind(
        f"{_ADMISSION}/mutatingwebhookconfigurations", False
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": Kind(
        f"{_ADMISSION}/validatingadmissionpolicies", False, _POLICY
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": Kind(
        f"{_ADMISSION}/validatingadmissionpolicybindings",
        False,
        {"spec": {"policyName": "none", "validationActions": ["Deny"]}},
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Kind(
        f"{_ADMISSION}/validatingwebhookconfigurations", False
    ),
    "customresourcedefinitions.apiextensions.k8s.io": Kind(DEFINITIONS, False, group="names.example.com"),
    "customresourcedefinitions.apiextensions.k8s.io v1beta1": Kind(
        DEFINITIONS.replace("/v1/", "/v1beta1/"), False, group="names.example.com", made_at=DEFINITIONS
    ),
    "leases.coordination.k8s.io": Kind("/apis/coordination.k8s.io/v1/leases", True, {"spec": {"holderIdentity": "h"}}),
    "storageversionmigrations.storagemigration.k8s.io v1beta1": Kind(
        "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations",
        False,
        {"spec": {"resource": {"group": "test.example.com", "resource": "nones"}}},
    ),
    "apiservices.apiregistration.k8s.io": Kind(
        "/apis/apiregistration.k8s.io/v1/apiservices", False, {"kind": "APIService"}, group="names.example.com"
    ),
    "apibindings.apis.registry": Kind(
        "/apis/apis.registry/v1/apibindings",
        False,
        {"kind": "APIBinding", "spec": {"reference": {"tenant": "default", "export": "none"}}},
    ),
    "apiexports.apis.registry": Kind(
        "/apis/apis.registry/v1/apiexports",
        False,
        {"kind": "APIExport", "spec": {"definitions": ["nones.test.example.com"]}},
    ),
    "widgets.test.example.com": Kind(
        "/apis/test.example.com/v1/widgets", True, {"kind": "Widget", "spec": {"color": "red"}}
    ),
    "gadgets.test.example.com": Kind(
        "/apis/test.example.com/v1/gadgets", False, {"kind": "Gadget", "spec": {"size": 1}}
    ),
    "tenants.tenancy.registry": Kind("/apis/tenancy.registry/v1/tenants", False, {"kind": "Tenant"}),
}


# --- what is asked

SELECTORS = {
    "none": "",
    "mine": "fieldSelector=metadata.name={mine}",
    "equal twice": "fieldSelector=metadata.name=={mine}",
    "mine and theirs": "fieldSelector=metadata.name={mine},metadata.name={theirs}",
    "theirs and mine": "fieldSelector=metadata.name={theirs},metadata.name={mine}",
    "two parameters": "fieldSelector=metadata.name={mine}&fieldSelector=metadata.name={theirs}",
    "two parameters, theirs first": "fieldSelector=metadata.name={theirs}&fieldSelector=metadata.name={mine}",
    "not theirs": "fieldSelector=metadata.name!={theirs}",
    "mine and not mine": "fieldSelector=metadata.name={mine},metadata.name!={mine}",
    "mine and a place": "fieldSelector=metadata.name={mine},metadata.namespace!=nowhere",
    "empty": "fieldSelector=",
    "a path": "fieldSelector=metadata.name=x/{theirs}",
}
LOOKS = (
    "",
    "deleted=true",
    "usage=true",
    "deleted=true&usage=true",
    "deleted=",
    "usage=0",
    "atResourceVersion=1",
    "object=true",
)
PAGES = (
    "limit=1",
    "limit=500&continue={token}",
    "continue={mine}",
    "resourceVersion=0",
    "resourceVersion={revision}&resourceVersionMatch=Exact",
    "labelSelector=both=yes",
    "labelSelector=both=yes&limit=1&deleted=true",
    "deleted=true&limit=1",
    "deleted=true&continue={token}",
    "usage=true&limit=1",
    "usage=true&continue=a",
    "includeObject=Object",
    "pretty=true",
    "watch=false",
)
ACCEPTS = (
    "",
    TABLE,
    PARTIAL_LIST,
    PARTIAL,
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
)
SUBRESOURCES = (
    "",
    "/status",
    "/scale",
    "/finalize",
    "/token",
    "/history",
    "/restore",
    "/undelete",
    "/deleted",
    "/usage",
    "/across",
    "/history?object=true&diff=json",
    "?atResourceVersion={revision}",
    "?fieldSelector=metadata.name={mine}",
    "?deleted=true&fieldSelector=metadata.name={mine}",
)


class World:
    """The tenant `system`, three objects of a kind in each place of it, and a user authorized for one of the names."""

    def __init__(self, admin: Client, kind: Kind) -> None:
        self.admin = admin
        self.kind = kind
        self.uids: set[str] = set()
        mine, theirs = kind.named(MINE), kind.named(THEIRS)
        token = base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":-1,"start":"a\\u0000"}').decode().rstrip("=")
        self.words = {"mine": mine, "theirs": theirs, "token": token, "revision": "1"}

    async def prepare(self) -> None:
        admin, kind = self.admin, self.kind
        (await admin.post(NAMESPACES, {"metadata": {"name": "elsewhere"}})).ok(201)
        await define(admin, widgets_definition())
        await define(admin, definition("gadgets", "Gadget", scope="Cluster"))
        (await admin.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "eve"}})).ok(201)
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": [MINE, kind.named(MINE)]}
        (await admin.post(f"{RBAC}/clusterroles", {"metadata": {"name": "one-name"}, "rules": [rule]})).ok(201)
        (
            await admin.post(
                f"{RBAC}/clusterrolebindings",
                {
                    "metadata": {"name": "one-name"},
                    "roleRef": {**_ROLE_REF, "name": "one-name"},
                    "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "eve"}],
                },
            )
        ).ok(201)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = (await admin.post("/api/v1/namespaces/default/serviceaccounts/eve/token", asked)).ok(201)
        self.user = admin.with_token(made["status"]["token"])
        self.across = self.user.of_tenant("*")
        for place in kind.places:
            for name in (MINE, THEIRS, HIDDEN):
                made = (await admin.post(self.path_of(place), kind.object(name, place))).ok(201)
                self.words["revision"] = made["metadata"]["resourceVersion"]
                if name != MINE:
                    self.uids.add(made["metadata"]["uid"])

    def path_of(self, place: str) -> str:
        kind = self.kind
        return kind._replace(path=kind.made_at or kind.path).collection(place)

    async def patch(self, name: str, place: str, word: str) -> None:
        patch = {"metadata": {"annotations": {"word": word}}}
        (await self.admin.patch(f"{self.path_of(place)}/{self.kind.named(name)}", patch)).ok()

    async def delete_all(self) -> None:
        for place in self.kind.places:
            for name in (MINE, THEIRS, HIDDEN):
                (await self.admin.delete(f"{self.path_of(place)}/{self.kind.named(name)}")).ok()

        async def gone() -> bool:
            left = [n for place in self.kind.places for n in names_of((await self.admin.get(self.path_of(place))).ok())]
            return not {self.kind.named(n) for n in (MINE, THEIRS, HIDDEN)} & set(left)

        await eventually(gone)

    async def ask(
        self, path: str, query: str = "", method: str = "GET", client: Client | None = None, **more: Any
    ) -> Answer:
        query = query.format(**self.words)
        if query:
            path += ("&" if "?" in path else "?") + query
        answer = await (client or self.user).request(method, path, **more)
        self.check(f"{method} {path} {more}", answer.body)
        return answer

    def check(self, asked: str, body: bytes) -> None:
        text = body.decode("latin-1")
        assert WORD not in text, (asked, text[:2000])
        assert HIDDEN not in text, (asked, text[:2000])
        assert not any(uid in text for uid in self.uids), (asked, text[:2000])

    async def look_everywhere(self) -> set[str]:
        """Asks by every query; what each answer had by itself: paths with queries that gave the authorized object."""
        kind, seen = self.kind, set[str]()
        lists = [*(kind.collection(place) for place in kind.places), kind.path]
        odd = [f"{kind.collection()}{end}" for end in ("//deleted", "//usage", "//history", "/", "//status")]
        asked = [(route, f"{selector}&{look}") for route in lists for selector in SELECTORS.values() for look in LOOKS]
        asked += [(route, f"{SELECTORS[name]}&{page}") for route in lists for name in SELECTED for page in PAGES]
        asked += [(route, SELECTORS[name]) for route in odd for name in SELECTED]
        for route, query in dict.fromkeys(asked):
            answer = await self.ask(route, query.strip("&"))
            if answer.code == 200 and f'"{kind.named(MINE)}"' in answer.text:
                seen.add(query)
        for accept in ACCEPTS:
            for name in SELECTED:
                for look in ("", "deleted=true", "usage=true", "includeObject=Object"):
                    for client in (self.user, self.across):
                        await self.ask(kind.path, f"{SELECTORS[name]}&{look}", client=client, accept=accept)
        return seen


SELECTED = ("none", "mine", "mine and theirs", "theirs and mine", "two parameters", "two parameters, theirs first")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS.values(), ids=KINDS)
async def world(
    request: pytest.FixtureRequest, postgres_server: str, api_template: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """One for all tests of a kind, in their order: the last of them deletes its objects."""
    with temporary_database(postgres_server, api_template) as url:
        async with serving(url, tmp_path_factory.mktemp("world")) as api:
            made = World(api.of_tenant("system"), request.param)
            await made.prepare()
            yield made


of_the_world = pytest.mark.asyncio(loop_scope="module")


@of_the_world
async def test_lists_show_the_authorized_object_alone(world: World) -> None:
    kind = world.kind
    seen = await world.look_everywhere()
    # Not for nothing: what is authorized is answered.
    assert "fieldSelector=metadata.name={mine}&" in seen
    answer = (await world.ask(kind.path, SELECTORS["mine"])).ok()
    assert [i["metadata"]["name"] for i in answer["items"]] == [kind.named(MINE)] * len(kind.places)
    across = (await world.ask(kind.path, SELECTORS["mine"], client=world.across)).ok()
    assert [i["metadata"]["name"] for i in across["items"]] == [kind.named(MINE)] * len(kind.places)
    failure(await world.ask(kind.path), 403, "Forbidden")
    if kind.path.endswith("/tenants"):
        usage = (await world.ask(kind.path, SELECTORS["mine"] + "&usage=true")).ok()
        assert [item["name"] for item in usage["items"]] == [MINE]


@of_the_world
async def test_other_objects_cannot_be_reached(world: World) -> None:
    kind = world.kind
    for name in (THEIRS, HIDDEN):
        for part in SUBRESOURCES:
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                path = f"{kind.collection()}/{kind.named(name)}{part}".format(**world.words)
                body: Body = {} if method in ("POST", "PUT", "PATCH") else None
                content = "application/merge-patch+json" if method == "PATCH" else "application/json"
                answer = await world.user.request(method, path, body, content_type=content)
                # The refusal tells the name that was asked for, and nothing else.
                assert answer.code == 403, (method, path, answer.text)
                assert WORD not in answer.text
                assert not any(uid in answer.text for uid in world.uids)
    for part in SUBRESOURCES:
        await world.ask(f"{kind.collection()}/{kind.named(MINE)}{part}".format(**world.words))
    # A collection is not authorized by a name, whatever is selected of it.
    for selector in SELECTORS.values():
        answer = await world.ask(kind.collection(), selector, "DELETE")
        assert answer.code in (403, 405), answer.text
    for place in kind.places:
        there = names_of((await world.admin.get(world.path_of(place))).ok())
        assert {kind.named(n) for n in (MINE, THEIRS, HIDDEN)} <= set(there)


@of_the_world
async def test_watches_show_the_authorized_object_alone(world: World) -> None:
    kind = world.kind
    mine = SELECTORS["mine"].format(**world.words)
    once = f"{kind.collection(prefix='/watch')}/{kind.named(MINE)}"
    paths = [
        f"{kind.collection()}?watch=1&{mine}",
        f"{kind.path}?watch=1&resourceVersion=0&{mine}",
        f"{kind.path}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&{mine}",
        f"{kind.path}?watch=1&resourceVersion={world.words['revision']}&{mine}",
        f"{kind.path}?watch=1&deleted=true&{mine}",
        f"{kind.path}?watch=1&usage=true&{mine}",
        f"{kind.collection(prefix='/watch')}?{mine}",
        once,
        f"{once}?{mine}",
        f"{kind.path}?watch=1&labelSelector=both=yes&{mine}",
    ]
    async with contextlib.AsyncExitStack() as stack:
        watches = [
            (path, await stack.enter_async_context(client.watch(path, accept=accept)))
            for client in (world.user, world.across)
            for path in paths
            for accept in ("", TABLE, PARTIAL)
            if client is world.user or "/watch/" not in path
        ]
        for path, watch in watches:
            assert watch.code == 200, (path, watch.body())
        for name in (THEIRS, HIDDEN):
            await world.patch(name, "default", f"{WORD}-2")
        await world.patch(MINE, "default", "touched")
        for path, watch in watches:
            while True:
                line = await watch.line()
                world.check(path, line)
                if b"MODIFIED" in line:
                    break


@of_the_world
async def test_what_is_gone_shows_the_authorized_object_alone(world: World) -> None:
    kind = world.kind
    await world.delete_all()
    await world.look_everywhere()
    answer = await world.ask(kind.path, SELECTORS["mine"] + "&deleted=true")
    if kind.path == "/api/v1/secrets":
        failure(answer, 403, "Forbidden")
        return
    items = answer.ok()["items"]
    assert [i["object"]["metadata"]["name"] for i in items] == [kind.named(MINE)] * len(kind.places)
    first = (await world.ask(kind.path, SELECTORS["mine"] + "&deleted=true&limit=1")).ok()
    assert len(first["items"]) == 1
    following = first["metadata"].get("continue")
    assert bool(following) == kind.namespaced
    if following:
        world.check("the token", base64.urlsafe_b64decode(following + "=" * (-len(following) % 4)))


async def test_a_watch_of_one_object_cannot_select_another(api: Client) -> None:
    await make(api, "a", "b")
    path = f"{WIDGETS.replace('/v1/', '/v1/watch/')}/a"
    for selector in ("metadata.name=b", "metadata.name!=a", "spec.color=grey"):
        answer = await api.get(f"{path}?fieldSelector={selector}")
        refused = failure(answer, 400, "BadRequest")
        assert refused["message"] == "fieldSelector metadata.name doesn't match requested name"


async def test_every_resource_is_looked_at(api: Client) -> None:
    system = api.of_tenant("system")
    await define(system, widgets_definition())
    groups = (await system.get("/apis")).ok()["groups"]
    served = ["api/v1", *(f"apis/{v['groupVersion']}" for group in groups for v in group["versions"])]
    found = set()
    for path in served:
        resources = (await system.get(f"/{path}")).ok()["resources"]
        found |= {f"/{path}/{resource['name']}" for resource in resources if "list" in resource["verbs"]}
    assert found <= {kind.path for kind in KINDS.values()}


# --- the exit that every answer passes


async def _chunks(*texts: str) -> AsyncIterator[Sequence[str]]:
    yield texts


async def _batches(*events: Event) -> AsyncGenerator[Sequence[Event], None]:
    yield events


def _object(name: str) -> str:
    return f'{{"metadata":{{"name":"{name}"}}}}'


def _request(name: str, *, administrator: bool = False) -> ResourceRequest:
    context: Any = SimpleNamespace(authorized_name=name, user=SimpleNamespace(is_administrator=administrator))
    request: Any = SimpleNamespace(context=context, served=SimpleNamespace(resource="widgets"), subresource="")
    return cast(ResourceRequest, request)


async def test_a_handler_that_does_not_select_shows_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    served: Any = None
    listed = confined(ListAnswer(served, 1, _chunks(_object("a"), _object("b")), remaining=7), _request("a"), "list")
    assert isinstance(listed, ListAnswer)
    assert listed.remaining is None
    assert [t async for texts in listed.chunks for t in texts] == [_object("a")]
    watched = confined(
        WatchAnswer(served, _batches(Event("ADDED", _object("b")), Event("BOOKMARK", "{}"))), _request("a"), "watch"
    )
    assert isinstance(watched, WatchAnswer)
    assert [e.type async for batch in watched.events for e in batch] == ["BOOKMARK"]
    items = [{"name": "a"}, {"name": "b"}, {"object": {"metadata": {"name": "b"}}}, {}]
    document = confined(DocumentAnswer({"metadata": {"continue": "b"}, "items": items}), _request("a"), "list")
    assert isinstance(document, DocumentAnswer)
    assert document.body == {"metadata": {}, "items": [{"name": "a"}]}
    assert len(caplog.records) == 3


@pytest.mark.parametrize("name, administrator", [("", False), ("a", True)], ids=["all", "administrator"])
def test_who_is_authorized_for_all_is_answered_all(name: str, administrator: bool) -> None:
    answer = DocumentAnswer({"items": [{"name": "a"}, {"name": "b"}]})
    assert confined(answer, _request(name, administrator=administrator), "list") is answer


# --- selecting what is gone


@pytest.mark.parametrize(
    "query, names",
    {
        "a name": ("fieldSelector=metadata.name=b", ["b"]),
        "not a name": ("fieldSelector=metadata.name!=b", ["a", "c"]),
        "a place": ("fieldSelector=metadata.namespace=nowhere", []),
        "labels": ("labelSelector=team=x", ["a", "c"]),
        "labels in pages": ("labelSelector=team=x&limit=1", ["a", "c"]),
        "labels and a name": ("labelSelector=team=x&fieldSelector=metadata.name=b", []),
    }.values(),
    ids=["a name", "not a name", "a place", "labels", "labels in pages", "labels and a name"],
)
async def test_selectors_select_among_what_is_gone(api: Client, query: str, names: list[str]) -> None:
    for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
        (await api.post(WIDGETS, widget(name, labels={"team": team}))).ok(201)
        (await api.delete(f"{WIDGETS}/{name}")).ok()
    for path in (WIDGETS, ALL_WIDGETS):
        found, following = list[str](), ""
        while True:
            page = (await api.get(f"{path}?deleted=true&{query}&continue={following}")).ok()
            found += [item["object"]["metadata"]["name"] for item in page["items"]]
            following = page["metadata"].get("continue", "")
            if not following:
                break
        assert found == names


async def test_what_is_gone_cannot_be_selected_by_fields_that_may_be_sensitive(api: Client) -> None:
    answer = await api.get(f"{WIDGETS}?deleted=true&fieldSelector=spec.color=red")
    assert failure(answer, 400, "BadRequest")["message"] == "field label not supported: spec.color"


@pytest.mark.parametrize(
    "query, code, names",
    [
        ("fieldSelector=metadata.name=default", 200, ["default"]),
        ("fieldSelector=metadata.name!=default", 200, ["system"]),
        ("fieldSelector=metadata.name!=default&limit=1", 200, ["system"]),
        ("fieldSelector=metadata.name=nobody", 200, []),
        ("labelSelector=a=b", 400, None),
        ("fieldSelector=spec.domain=x", 400, None),
    ],
    ids=["a name", "not a name", "a page", "nobody", "labels", "another field"],
)
async def test_usage_is_selected_by_name(api: Client, query: str, code: int, names: list[str] | None) -> None:
    answer = await api.of_tenant("system").get(f"/apis/tenancy.registry/v1/tenants?usage=true&{query}")
    assert answer.code == code, answer.text
    if names is not None:
        assert [item["name"] for item in answer.json["items"]] == names
