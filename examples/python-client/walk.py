"""A walk through the API with the official Python client (`pip install kubernetes`).

    KUBECONFIG=<data-dir>/kubeconfig python examples/python-client/walk.py

It defines CronTabs (examples/crontab), works with one in a namespace of its own, and removes that namespace again.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client, config, dynamic, watch

GROUP, VERSION, PLURAL = "jobs.example.com", "v1", "crontabs"
DEFINITION = Path(__file__).parent.parent / "crontab" / "definition.yaml"


def main() -> None:
    config.load_kube_config()
    define()
    namespace = f"walk-{secrets.token_hex(4)}"
    client.CoreV1Api().create_namespace({"metadata": {"name": namespace}})
    try:
        walk(namespace)
    finally:
        client.CoreV1Api().delete_namespace(namespace)


def define() -> None:
    """Creates the definition unless it is there, and waits until it is established."""
    api = client.ApiextensionsV1Api()
    definition = yaml.safe_load(DEFINITION.read_text())
    try:
        api.create_custom_resource_definition(definition)
    except client.ApiException as error:
        if error.status != 409:
            raise
    name = definition["metadata"]["name"]
    for event in watch.Watch().stream(api.list_custom_resource_definition, field_selector=f"metadata.name={name}"):
        conditions = event["object"].status.conditions or []
        if any(c.type == "Established" and c.status == "True" for c in conditions):
            print(f"{name} is established")
            return


def walk(namespace: str) -> None:
    api = client.CustomObjectsApi()
    where = (GROUP, VERSION, namespace, PLURAL)

    made = api.create_namespaced_custom_object(*where, crontab("nightly", "0 3 * * *"))
    print("created", made["metadata"]["name"], "with", made["spec"]["replicas"], "replica by default")

    try:
        api.create_namespaced_custom_object(*where, crontab("broken", "at noon"))
    except client.ApiException as error:
        print("refused", json.loads(error.body)["details"]["causes"][0]["field"])

    listed = api.list_namespaced_custom_object(*where, field_selector="spec.image=backup:2")
    print("listed", [item["metadata"]["name"] for item in listed["items"]])

    # A watch from the revision of the list sees all that comes after it, whatever happens in between.
    api.patch_namespaced_custom_object(*where, "nightly", {"spec": {"replicas": 3}})
    api.patch_namespaced_custom_object_status(*where, "nightly", {"status": {"phase": "Ready", "replicas": 3}})
    events = watch.Watch()
    revision = listed["metadata"]["resourceVersion"]
    for event in events.stream(api.list_namespaced_custom_object, *where, resource_version=revision):
        seen = event["object"]
        print("saw", event["type"], seen["spec"]["replicas"], seen.get("status", {}).get("phase"))
        if seen.get("status"):
            events.stop()

    # An optimistic lock: the old revision is refused.
    stale = {**made, "spec": {**made["spec"], "schedule": "0 4 * * *"}}
    try:
        api.replace_namespaced_custom_object(*where, "nightly", stale)
    except client.ApiException as error:
        print("conflict", error.status)

    # Server-side apply: each manager owns the fields that it states.
    crontabs = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version=f"{GROUP}/{VERSION}", kind="CronTab")
    for manager in ("schedule-keeper", "somebody-else"):
        wanted = crontab("shared", "0 5 * * *" if manager == "schedule-keeper" else "0 6 * * *")
        try:
            crontabs.server_side_apply(body=wanted, name="shared", namespace=namespace, field_manager=manager)
            print("applied by", manager)
        except dynamic.exceptions.ConflictError as error:
            print(json.loads(error.body)["message"])

    api.delete_namespaced_custom_object(*where, "nightly")
    print("deleted nightly")


def crontab(name: str, schedule: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "CronTab",
        "metadata": {"name": name, "labels": {"team": "storage"}},
        "spec": {"schedule": schedule, "image": "backup:2"},
    }


if __name__ == "__main__":
    main()
