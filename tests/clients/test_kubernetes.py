"""The official Python client: typed APIs, custom objects, the dynamic client, watches."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.kinds import Kind, defined
from tests.clients.libraries import library
from tests.running import RunningServer

kubernetes: Any = library("kubernetes")


@pytest.fixture
def api(server: RunningServer) -> Iterator[Any]:
    with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as api:
        yield api
        api.rest_client.pool_manager.clear()


@pytest.fixture
def objects(api: Any) -> Any:
    return kubernetes.client.CustomObjectsApi(api)


@pytest.fixture
def where(kind: Kind) -> tuple[str, str, str, str]:
    return kind.group, kind.version, kind.namespace, kind.plural


def failure(error: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(error.value.body)
    assert body["kind"] == "Status"
    assert body["code"] == error.value.status
    return body


def test_typed_apis(api: Any, kind: Kind) -> None:
    assert kubernetes.client.VersionApi(api).get_code().git_version.startswith("v1.")
    core = kubernetes.client.CoreV1Api(api)
    namespace = core.read_namespace(kind.namespace)
    assert namespace.status.phase == "Active"
    assert kind.namespace in [n.metadata.name for n in core.list_namespace().items]
    core.patch_namespace(kind.namespace, {"metadata": {"labels": {"kept": "yes"}}})
    assert core.list_namespace(label_selector="kept=yes").items[0].metadata.name == kind.namespace
    definitions = kubernetes.client.ApiextensionsV1Api(api)
    definition = definitions.read_custom_resource_definition(f"{kind.plural}.{kind.group}")
    assert definition.spec.names.kind == "Gadget"
    assert {c.type: c.status for c in definition.status.conditions}["Established"] == "True"
    assert kind.group in [g.name for g in kubernetes.client.ApisApi(api).get_api_versions().groups]


def test_custom_objects(objects: Any, kind: Kind, where: tuple[str, ...]) -> None:
    made = objects.create_namespaced_custom_object(*where, kind.gadget("a", size=1))
    assert made["spec"] == {"size": 1, "color": "grey"}
    with pytest.raises(kubernetes.client.ApiException) as twice:
        objects.create_namespaced_custom_object(*where, kind.gadget("a", size=1))
    assert failure(twice)["reason"] == "AlreadyExists"
    with pytest.raises(kubernetes.client.ApiException) as wrong:
        objects.create_namespaced_custom_object(*where, kind.gadget("b", size=2000))
    assert failure(wrong)["details"]["causes"][0]["field"] == "spec.size"

    patched = objects.patch_namespaced_custom_object(*where, "a", {"spec": {"size": 2}})
    assert (patched["spec"]["size"], patched["metadata"]["generation"]) == (2, 2)
    with pytest.raises(kubernetes.client.ApiException) as stale:
        objects.replace_namespaced_custom_object(*where, "a", made)
    assert failure(stale)["reason"] == "Conflict"

    status = objects.patch_namespaced_custom_object_status(*where, "a", {"status": {"phase": "Ready"}})
    assert (status["status"]["phase"], status["metadata"]["generation"]) == ("Ready", 2)
    scaled = objects.patch_namespaced_custom_object_scale(*where, "a", {"spec": {"replicas": 4}})
    assert scaled["spec"]["replicas"] == 4
    assert objects.get_namespaced_custom_object(*where, "a")["spec"]["replicas"] == 4

    objects.delete_namespaced_custom_object(*where, "a")
    with pytest.raises(kubernetes.client.ApiException) as gone:
        objects.get_namespaced_custom_object(*where, "a")
    assert failure(gone)["reason"] == "NotFound"


def test_lists_with_selectors_and_pages(objects: Any, kind: Kind, where: tuple[str, ...]) -> None:
    for number in range(7):
        color = "red" if number % 2 else "blue"
        objects.create_namespaced_custom_object(*where, kind.gadget(f"g{number}", size=number, color=color))

    def names(**options: Any) -> list[str]:
        return [i["metadata"]["name"] for i in objects.list_namespaced_custom_object(*where, **options)["items"]]

    assert names(label_selector="size in (2, 5)") == ["g2", "g5"]
    assert names(field_selector="spec.color=red") == ["g1", "g3", "g5"]
    assert names(field_selector="metadata.name=g4") == ["g4"]
    pages, token = [], ""
    while True:
        page = objects.list_namespaced_custom_object(*where, limit=3, _continue=token)
        pages.append([i["metadata"]["name"] for i in page["items"]])
        token = page["metadata"].get("continue")
        if not token:
            break
        objects.delete_namespaced_custom_object(*where, pages[0][len(pages) - 1])
    assert pages == [["g0", "g1", "g2"], ["g3", "g4", "g5"], ["g6"]], "all pages are of the first one's revision"
    objects.delete_collection_namespaced_custom_object(*where, label_selector="size in (4, 5)")
    assert names() == ["g2", "g3", "g6"]


def test_watch_from_a_list(objects: Any, kind: Kind, where: tuple[str, ...]) -> None:
    objects.create_namespaced_custom_object(*where, kind.gadget("a", size=1))
    listed = objects.list_namespaced_custom_object(*where)
    objects.patch_namespaced_custom_object(*where, "a", {"spec": {"size": 2}})
    later = threading.Timer(0.2, lambda: objects.delete_namespaced_custom_object(*where, "a"))
    later.start()
    seen = []
    watch = kubernetes.watch.Watch()
    for event in watch.stream(
        objects.list_namespaced_custom_object,
        *where,
        timeout_seconds=60,
        resource_version=listed["metadata"]["resourceVersion"],
    ):
        seen.append((event["type"], event["object"]["spec"]["size"]))
        if event["type"] == "DELETED":
            watch.stop()
    later.join()
    assert seen == [("MODIFIED", 2), ("DELETED", 2)]


def test_watch_goes_on_after_its_time(objects: Any, kind: Kind, where: tuple[str, ...]) -> None:
    """The client connects again by itself, from the last revision that it has seen."""
    objects.create_namespaced_custom_object(*where, kind.gadget("a", size=1))
    watch, seen = kubernetes.watch.Watch(), list[int]()
    while not seen:
        for event in watch.stream(objects.list_namespaced_custom_object, *where, timeout_seconds=1):
            seen.append(event["object"]["spec"]["size"])
    objects.patch_namespaced_custom_object(*where, "a", {"spec": {"size": 2}})
    while len(seen) == 1:
        for event in watch.stream(
            objects.list_namespaced_custom_object, *where, timeout_seconds=1, resource_version=watch.resource_version
        ):
            seen.append(event["object"]["spec"]["size"])
    assert seen == [1, 2]


def test_watch_of_a_definition_that_is_new(api: Any, server: RunningServer) -> None:
    """A watch that begins while definitions change begins anyway."""
    definitions = kubernetes.client.ApiextensionsV1Api(api)
    for _ in range(3):
        with defined(server, f"g{secrets.token_hex(4)}.example.com", f"ns-{secrets.token_hex(4)}") as kind:
            watch = kubernetes.watch.Watch()
            name = f"{kind.plural}.{kind.group}"
            seen = []
            for event in watch.stream(
                definitions.list_custom_resource_definition, field_selector=f"metadata.name={name}", timeout_seconds=60
            ):
                seen.append(event["object"].metadata.name)
                watch.stop()
            assert seen == [name]


def test_dynamic_client(api: Any, kind: Kind) -> None:
    dynamic = kubernetes.dynamic.DynamicClient(api)
    gadgets = dynamic.resources.get(api_version=kind.api_version, kind="Gadget")
    assert (gadgets.name, gadgets.singular_name, gadgets.short_names) == ("gadgets", "gadget", ["gd"])
    at: dict[str, Any] = {"namespace": kind.namespace}
    made = gadgets.create(body=kind.gadget("a", size=1), **at)
    assert made.spec.color == "grey"
    merge = "application/merge-patch+json"
    assert gadgets.patch(body={"spec": {"size": 3}}, name="a", content_type=merge, **at).spec.size == 3
    operations = [{"op": "test", "path": "/spec/size", "value": 3}, {"op": "remove", "path": "/spec/size"}]
    patched = gadgets.patch(body=operations, name="a", content_type="application/json-patch+json", **at)
    assert patched.spec.size is None
    with pytest.raises(kubernetes.dynamic.exceptions.DynamicApiError) as strategic:
        gadgets.patch(body={"spec": {"size": 3}}, name="a", **at)
    assert failure(strategic)["reason"] == "UnsupportedMediaType", "the client's default is a strategic merge patch"
    gadgets.status.patch(body={"status": {"phase": "Up"}}, name="a", content_type=merge, **at)
    assert gadgets.status.get(name="a", **at).status.phase == "Up"
    assert [g.metadata.name for g in gadgets.get(field_selector="spec.color=grey", **at).items] == ["a"]
    gadgets.delete(name="a", **at)
    with pytest.raises(kubernetes.dynamic.exceptions.NotFoundError):
        gadgets.get(name="a", **at)


def test_dynamic_client_applies(api: Any, kind: Kind) -> None:
    gadgets = kubernetes.dynamic.DynamicClient(api).resources.get(api_version=kind.api_version, kind="Gadget")

    def apply(manager: str, size: int, force: bool = False) -> Any:
        body = kind.gadget("shared", size=size)
        del body["metadata"]["labels"]
        return gadgets.server_side_apply(
            body=body, name="shared", namespace=kind.namespace, field_manager=manager, force_conflicts=force
        )

    assert apply("one", 1).spec.size == 1
    with pytest.raises(kubernetes.dynamic.exceptions.ConflictError) as conflict:
        apply("two", 2)
    assert failure(conflict)["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.size"}
    ]
    applied = apply("two", 2, force=True)
    assert applied.spec.size == 2
    assert {f.manager: f.operation for f in applied.metadata.managedFields} == {"two": "Apply"}


def test_dynamic_watch(api: Any, kind: Kind) -> None:
    gadgets = kubernetes.dynamic.DynamicClient(api).resources.get(api_version=kind.api_version, kind="Gadget")
    gadgets.create(body=kind.gadget("a", size=1), namespace=kind.namespace)
    seen: list[str] = []
    while not seen:
        seen += [e["object"].metadata.name for e in gadgets.watch(namespace=kind.namespace, timeout=1)]
    assert seen == ["a"]
