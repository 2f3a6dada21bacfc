"""A definition that changes in every way that a definition can, with what its objects look like at each version."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS
from tests.https import Endpoint

Json = dict[str, Any]

NAMES: Final = ("v1", "v2", "v3", "v4")
FIELDS: Final = ("a", "b", "c")
NO_WEBHOOK: Final = {"strategy": "None", "webhook": None}
RULES: Final = "conversion.registry/rules"


class RenamingWebhook:
    """Converts as the rules do: the member `one` of v1 is called `two` in all others."""

    def __init__(self, endpoint: Endpoint) -> None:
        client = {"url": endpoint.url, "caBundle": endpoint.ca_bundle}
        self.conversion = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        review = await Request(scope, receive).json()
        wanted = review["request"]["desiredAPIVersion"]
        for obj in review["request"]["objects"]:
            names = ("one", "two") if obj["apiVersion"].endswith("/v1") else ("two", "one")
            if obj["apiVersion"].endswith("/v1") != wanted.endswith("/v1") and names[0] in (obj.get("spec") or {}):
                obj["spec"][names[1]] = obj["spec"].pop(names[0])
            obj["apiVersion"] = wanted
        converted = review["request"]["objects"]
        response = {"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        await JSONResponse(answer)(scope, receive, send)


def _rules(versions: list[str]) -> str:
    def link(one: str, two: str) -> Json:
        if "v1" not in (one, two):
            return {"from": one, "to": two, "loss": "Drop", "rules": [], "back": []}
        names = ("one", "two") if one == "v1" else ("two", "one")
        return {
            "from": one,
            "to": two,
            "loss": "Drop",
            "rules": [{"rename": {"path": f"spec.{names[0]}", "to": names[1]}}],
            "back": [{"rename": {"path": f"spec.{names[1]}", "to": names[0]}}],
        }

    return json.dumps({"conversions": [link(*pair) for pair in itertools.pairwise(versions)]})


def _version(name: str) -> Json:
    own = {("one" if name == "v1" else "two"): {"type": "string"}}
    fields = {field: {"type": "string"} for field in (name, "a", "b")}
    spec = {"type": "object", "properties": {**own, **fields}}
    return {
        "name": name,
        "served": True,
        "storage": False,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "additionalPrinterColumns": [{"name": "C", "type": "string", "jsonPath": ".spec.a"}],
        # The first, since kube-apiserver refuses equal ones for all versions unless the schemas are equal, too.
        "selectableFields": [{"jsonPath": f".spec.{name}"}, {"jsonPath": ".spec.a"}],
    }


class ChangingDefinition:
    """Each method is one kind of change; one that would be refused changes nothing."""

    CHANGES = ("default", "property", "pruning", "storage", "served", "add", "drop", "rename", "column", "selectable")

    def __init__(self, group: str, webhook: RenamingWebhook) -> None:
        self.group = group
        self.name = f"things.{group}"
        self._webhook = webhook
        self.conversion = "None"
        self.spec: Json = {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{**_version(name), "storage": name == "v1"} for name in NAMES[:3]],
            "conversion": NO_WEBHOOK,
        }

    def body(self) -> Json:
        self.spec["conversion"] = self._webhook.conversion if self.conversion == "Webhook" else NO_WEBHOOK
        rules = _rules([version["name"] for version in self.spec["versions"]]) if self._has_rules else None
        return {"metadata": {"annotations": {RULES: rules}}, "spec": copy.deepcopy(self.spec)}

    @property
    def _has_rules(self) -> bool:
        return self.conversion == "rules" and len(self.spec["versions"]) > 1

    @property
    def converts_contents(self) -> bool:
        return self.conversion == "Webhook" or self._has_rules

    async def create(self, client: Client) -> None:
        made = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **self.body()}
        made["metadata"] = {"name": self.name}
        (await client.post(DEFINITIONS, made)).ok(201)
        await self._accepted(client)

    async def write(self, client: Client) -> None:
        (await client.patch(f"{DEFINITIONS}/{self.name}", self.body())).ok()
        await self._accepted(client)

    async def _accepted(self, client: Client) -> None:
        async def look() -> bool:
            status = (await client.get(f"{DEFINITIONS}/{self.name}")).ok()["status"]
            accepted = (status.get("acceptedNames") or {}).items()
            established = {"type": "Established", "status": "True"}.items()
            return self.spec["names"].items() <= accepted and any(
                established <= condition.items() for condition in status["conditions"]
            )

        await eventually(look)

    @property
    def served(self) -> list[str]:
        return [version["name"] for version in self.spec["versions"] if version["served"]]

    @property
    def storage(self) -> str:
        return next(str(version["name"]) for version in self.spec["versions"] if version["storage"])

    def version(self, name: str) -> Json:
        return next(version for version in self.spec["versions"] if version["name"] == name)

    def selectable(self, name: str) -> list[str]:
        fields = [field["jsonPath"].removeprefix(".spec.") for field in self.version(name)["selectableFields"]]
        return [field for field in fields if field in FIELDS]

    def column(self, name: str) -> str:
        return str(self.version(name)["additionalPrinterColumns"][0]["jsonPath"].removeprefix(".spec."))

    def dropped(self, number: int) -> str:
        """The version that `drop` removes; empty if there is none."""
        others = [version["name"] for version in self.spec["versions"] if not version["storage"]]
        name = str(others[number % len(others)]) if others else ""
        return name if [name] != self.served else ""

    def change(self, what: str, number: int, field: str, value: str) -> None:
        """Changes the version of this number; `value` is empty to remove something."""
        version = self.spec["versions"][number % len(self.spec["versions"])]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        properties, selectable = spec["properties"], version["selectableFields"]
        path = {"jsonPath": f".spec.{field}"}
        match what:
            case "default" if value:
                properties[field] = {"type": "string", "default": value}
            case "default" | "property" if field not in properties or what == "default":
                properties[field] = {"type": "string"}
            case "property":
                del properties[field]
                selectable[:] = [other for other in selectable if other != path]
            case "pruning":
                if spec.pop("x-kubernetes-preserve-unknown-fields", None) is None:
                    spec["x-kubernetes-preserve-unknown-fields"] = True
            case "storage":
                for other in self.spec["versions"]:
                    other["storage"] = other is version
            case "served" if self.served != [version["name"]]:
                version["served"] = not version["served"]
            case "add":
                missing = [name for name in NAMES if name not in [v["name"] for v in self.spec["versions"]]]
                self.spec["versions"] += [_version(name) for name in missing[:1]]
            case "drop" if name := self.dropped(number):
                self.spec["versions"].remove(self.version(name))
            case "rename":
                self.spec["names"] |= {"listKind": f"Things{number}", "singular": f"thing{number}"}
            case "column":
                version["additionalPrinterColumns"][0]["jsonPath"] = path["jsonPath"]
            case "selectable" if path in selectable:
                selectable.remove(path)
            case "selectable" if field in properties:
                selectable.append(path)
            case "None" | "rules" | "Webhook":
                self.conversion = what
