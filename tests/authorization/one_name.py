"""A user who is authorized for one name, and all that could be asked of the other objects of a kind."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.api.client import PARTIAL, PARTIAL_LIST, TABLE, Answer, Client, eventually
from tests.api.widgets import DEFINITIONS, NAMESPACES, define, definition, names_of, widgets_definition

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
    "storageversionmigrations.storagemigration.k8s.io": Kind(
        "/apis/storagemigration.k8s.io/v1/storageversionmigrations",
        False,
        {"spec": {"resource": {"group": "test.example.com", "resource": "nones"}}},
    ),
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
SELECTED = ("none", "mine", "mine and theirs", "theirs and mine", "two parameters", "two parameters, theirs first")
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
# Queries of what was, which find objects that are gone.
PAST = ("deleted", "atResourceVersion", "resourceVersion=", "includeObject")
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


async def prepare(admin: Client) -> Client:
    """Adds a namespace and definitions to the tenant. Returns a user who is authorized for the name `mine`."""
    (await admin.post(NAMESPACES, {"metadata": {"name": "elsewhere"}})).ok(201)
    await define(admin, widgets_definition())
    await define(admin, definition("gadgets", "Gadget", scope="Cluster"))
    (await admin.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "eve"}})).ok(201)
    names = sorted({kind.named(MINE) for kind in KINDS.values()})
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": names}
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
    return admin.with_token(made["status"]["token"])


class World:
    """Three objects of a kind in each place of the tenant `system`, and a user authorized for one of the names."""

    def __init__(self, admin: Client, user: Client, kind: Kind) -> None:
        self.admin = admin
        self.user = user
        self.across = user.of_tenant("*")
        self.kind = kind
        self.uids: set[str] = set()
        mine, theirs = kind.named(MINE), kind.named(THEIRS)
        token = base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":-1,"start":"a\\u0000"}').decode().rstrip("=")
        self.words = {"mine": mine, "theirs": theirs, "token": token, "revision": "1"}

    async def fill(self) -> None:
        admin, kind = self.admin, self.kind
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

    async def look_everywhere(self, *, past: bool = False) -> set[str]:
        """Asks by every query; what each answer had by itself: paths with queries that gave the authorized object.

        `past`: only by those that find objects that are gone.
        """

        def is_asked(target: str) -> bool:
            return not past or any(word in target for word in PAST) or "//" in target

        kind, seen = self.kind, set[str]()
        lists = [*(kind.collection(place) for place in kind.places), kind.path]
        odd = [f"{kind.collection()}{end}" for end in ("//deleted", "//usage", "//history", "/", "//status")]
        asked = [(route, f"{selector}&{look}") for route in lists for selector in SELECTORS.values() for look in LOOKS]
        paged = (lists[0], lists[-1])
        asked += [(route, f"{SELECTORS[name]}&{page}") for route in paged for name in SELECTED for page in PAGES]
        asked += [(route, SELECTORS[name]) for route in odd for name in SELECTED]
        for route, query in filter(lambda one: is_asked("?".join(one)), dict.fromkeys(asked)):
            answer = await self.ask(route, query.strip("&"))
            if answer.code == 200 and f'"{kind.named(MINE)}"' in answer.text:
                seen.add(query)
        # Each format with each selector, and with each way of looking.
        queries = [f"{SELECTORS[name]}&" for name in SELECTED]
        queries += [f"{SELECTORS['mine']}&{look}" for look in ("deleted=true", "usage=true", "includeObject=Object")]
        for accept, query, client in itertools.product(ACCEPTS, filter(is_asked, queries), (self.user, self.across)):
            await self.ask(kind.path, query, client=client, accept=accept)
        return seen
