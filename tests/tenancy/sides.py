"""Tenants beside each other: what each does, what it must have, and the words that it must never see."""

from __future__ import annotations

import itertools
from typing import Any

from tests.api.client import APPLY, JSON_PATCH, PARTIAL_LIST, TABLE, Answer, Body, Client
from tests.api.widgets import ALL_WIDGETS, DEFINITIONS, GROUP, NAMESPACES, WIDGETS, widget, widgets_definition

NAMES = "abc"


CHANGES = ("create", "generate", "update", "patch", "json", "apply", "delete", "collection", "dry", "namespace")


LOOKS = (
    "get",
    "list",
    "selected",
    "fields",
    "table",
    "names",
    "pages",
    "everywhere",
    "history",
    "deleted",
    "stolen",
    "missing",
    "namespaces",
    "definitions",
    "discovery",
    "past",
)


_numbers = itertools.count()


class Side:
    """One tenant, and what it must have. `foreign` are the words that it must never see."""

    def __init__(self, client: Client, word: str, *foreign: str) -> None:
        self.client = client
        self.word = word
        self.foreign = foreign
        self.model: dict[str, int] = {}
        self.events: list[tuple[str, str]] = []
        self.uids: set[str] = set()
        self.token = ""
        self.start = ""
        self.revision = ""
        self.others: list[Side] = []

    async def ask(self, method: str, path: str, body: Body = None, **more: Any) -> Answer:
        answer = await self.answer(method, path, body, **more)
        assert answer.code < 500, answer.text
        if answer.code == 201 and "dryRun" not in path:
            self.uids.add(answer.json["metadata"]["uid"])
        return answer

    async def answer(self, method: str, path: str, body: Body = None, **more: Any) -> Answer:
        answer = await self.client.request(method, path, body, **more)
        self.check(answer.text)
        return answer

    def check(self, text: str) -> None:
        assert not any(word in text for word in self.foreign), text
        assert not any(uid in text for other in self.others for uid in other.uids), text

    def body(self, name: str, size: int) -> dict[str, Any]:
        return widget(name, labels={"word": self.word, "both": "yes"}, size=size, color=self.word)

    async def change(self, verb: str, name: str, size: int) -> None:
        model, path = self.model, f"{WIDGETS}/{name}"
        there = name in model
        match verb:
            case "create":
                answer = await self.ask("POST", WIDGETS, self.body(name, size))
                assert answer.code == (409 if there else 201)
                self._create(name, size, there=there)
            case "generate":
                body = self.body(name, size)
                body["metadata"] = {"generateName": f"{name}-", "labels": body["metadata"]["labels"]}
                made = (await self.ask("POST", WIDGETS, body)).ok(201)["metadata"]["name"]
                self._create(made, size, there=False)
            case "update":
                answer = await self.ask("PUT", path, self.body(name, size))
                # A PUT without a resource version is refused, whatever there is.
                assert answer.code == (422 if there else 404)
            case "patch" | "json":
                patch: Body = {"spec": {"size": size}}
                if verb == "json":
                    patch = [{"op": "replace", "path": "/spec/size", "value": size}]
                answer = await (
                    self.ask("PATCH", path, patch, content_type=JSON_PATCH)
                    if verb == "json"
                    else self.ask("PATCH", path, patch, content_type="application/merge-patch+json")
                )
                assert answer.code == (200 if there else 404)
                if there:
                    self._changed(name, size)
            case "apply":
                answer = await self.ask(
                    "PATCH", f"{path}?fieldManager=m&force=true", self.body(name, size), content_type=APPLY
                )
                assert answer.code == (200 if there else 201)
                self._changed(name, size) if there else self._create(name, size, there=False)
            case "delete":
                assert (await self.ask("DELETE", path)).code == (200 if there else 404)
                if there:
                    self._gone(name)
            case "collection":
                (await self.ask("DELETE", f"{WIDGETS}?labelSelector=both%3Dyes")).ok()
                for each in sorted(model):
                    self._gone(each)
            case "dry":
                answer = await self.ask("POST", f"{WIDGETS}?dryRun=All", self.body(name, size))
                assert answer.code == (409 if there else 201)
            case _:
                body = {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": f"{name}-{next(_numbers)}-{self.word}"},
                }
                (await self.ask("POST", NAMESPACES, body)).ok(201)

    def _create(self, name: str, size: int, *, there: bool) -> None:
        if not there:
            self.model[name] = size
            self.events.append(("ADDED", name))

    def _changed(self, name: str, size: int) -> None:
        if self.model[name] != size:
            self.model[name] = size
            self.events.append(("MODIFIED", name))

    def _gone(self, name: str) -> None:
        del self.model[name]
        self.events.append(("DELETED", name))

    async def look(self, what: str, name: str) -> None:
        model = self.model
        match what:
            case "get":
                answer = await self.ask("GET", f"{WIDGETS}/{name}")
                assert answer.code == (200 if name in model else 404)
                if name in model:
                    assert answer.json["spec"] == {"size": model[name], "color": self.word}
            case "list" | "everywhere" | "selected" | "fields":
                path = ALL_WIDGETS if what == "everywhere" else WIDGETS
                query = {
                    "selected": "?labelSelector=both%3Dyes",
                    "fields": f"?fieldSelector=metadata.name%3D{name}",
                }.get(what, "")
                found = (await self.ask("GET", path + query)).ok()
                wanted = {n: size for n, size in model.items() if what != "fields" or n == name}
                assert {i["metadata"]["name"]: i["spec"]["size"] for i in found["items"]} == wanted
                self.revision = found["metadata"]["resourceVersion"]
            case "table" | "names":
                accept = TABLE if what == "table" else PARTIAL_LIST
                found = (await self.ask("GET", WIDGETS, accept=accept)).ok()
                assert len(found["rows" if what == "table" else "items"] or ()) == len(model)
            case "pages":
                found = (await self.ask("GET", f"{WIDGETS}?limit=1")).ok()
                assert len(found["items"]) == min(1, len(model))
                assert found["metadata"].get("remainingItemCount", 0) == max(0, len(model) - 1)
                self.token = found["metadata"].get("continue") or self.token
            case "stolen":
                # A token of the other's goes on with nothing but one's own, and may name a revision not reached here.
                for token in filter(None, [other.token for other in self.others]):
                    answer = await self.answer("GET", f"{WIDGETS}?limit=5&continue={token}")
                    ahead = answer.code == 504 and answer.json["reason"] == "Timeout"
                    assert ahead or answer.code in (200, 410), answer.text
            case "past":
                if self.revision:
                    answer = await self.ask(
                        "GET", f"{WIDGETS}?resourceVersion={self.revision}&resourceVersionMatch=Exact"
                    )
                    assert answer.code in (200, 410)
            case "history":
                await self.ask("GET", f"{WIDGETS}/{name}/history")
            case "deleted":
                (await self.ask("GET", f"{WIDGETS}?deleted=true")).ok()
            case "missing":
                assert (await self.ask("GET", f"{WIDGETS}/{name}-none")).code == 404
            case "namespaces" | "definitions":
                await self.ask("GET", NAMESPACES if what == "namespaces" else DEFINITIONS)
            case _:
                await self.ask("GET", f"/apis/{GROUP}")
                await self.ask("GET", "/openapi/v3")

    async def watched(self) -> None:
        """The events since the start, and none of the other's."""
        async with self.client.watch(f"{WIDGETS}?watch=1&resourceVersion={self.start}") as watch:
            found = await watch.events(len(self.events))
        self.check(str(found))
        # The deletions of a collection go side by side: their order is the commits'.
        assert sorted((e["type"], e["object"]["metadata"]["name"]) for e in found) == sorted(self.events)

    async def begin(self) -> None:
        (await self.client.delete(WIDGETS)).ok()
        self.model, self.events = {}, []
        self.start = (await self.client.get(WIDGETS)).ok()["metadata"]["resourceVersion"]


def colored() -> dict[str, Any]:
    found = widgets_definition()
    for version in found["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"] = {"type": "string"}
    return found
