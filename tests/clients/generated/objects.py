"""The life of an object through a client that openapi-generator has made; prints a line of JSON for each step.

Runs in the environment of the generator: only the generated package and what it requires is imported.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main() -> None:
    options = json.load(sys.stdin)
    sys.path.insert(0, options["folder"])
    package: Any = importlib.import_module("generated")
    configuration = package.Configuration(host=options["url"], ssl_ca_cert=options["authority"])
    client = package.ApiClient(configuration)
    client.set_default_header("Authorization", f"Bearer {options['token']}")
    api = getattr(package, options["api"])(client)
    model = getattr(package, options["model"])
    namespace, body = options["namespace"], options["body"]
    name = body["metadata"]["name"]

    def call(verb: str, *arguments: Any, **keywords: Any) -> Any:
        return getattr(api, options["method"].format(verb=verb))(*arguments, **keywords)

    def say(step: str, answer: Any) -> None:
        metadata = answer.metadata
        print(json.dumps([step, type(answer).__name__, metadata.name, metadata.labels]), flush=True)

    created = call("create", namespace, model.from_dict(body))
    say("created", created)
    say("read", call("read", name, namespace))
    created.metadata.labels = {"step": "replaced"}
    say("replaced", call("replace", name, namespace, created))
    for step, of in {"merged": "application/merge-patch+json", "applied": "application/apply-patch+yaml"}.items():
        patch = {**body, "metadata": {"name": name, "labels": {"step": step}}}
        force = True if step == "applied" else None
        say("patched", call("patch", name, namespace, patch, field_manager="test", force=force, _content_type=of))
    found = call("list", namespace, label_selector="step", limit=5)
    print(json.dumps(["listed", type(found).__name__, [item.metadata.name for item in found.items]]))
    status = call("delete", name, namespace)
    print(json.dumps(["deleted", type(status).__name__, status.status]))
    try:
        call("read", name, namespace)
    except package.ApiException as error:
        print(json.dumps(["gone", error.status, json.loads(error.body)["reason"]]))


if __name__ == "__main__":
    main()
