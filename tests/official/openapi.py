"""Compares the OpenAPI documents of this server with those of a running kube-apiserver.

    python -m tests.official.openapi [--kube-apiserver PROGRAM] [--etcd PROGRAM] [--record] [FOLDER ...]

Both servers get the definitions of definitions.yaml, and those in the folders. Every difference is printed, but for the
descriptions, which are our own, and the kinds and versions that one of the two does not serve. `--record` writes the
digests that tests/definitions/test_openapi_digests.py compares with. kube-apiserver has to be built with the Go version
that it requires: with another encoding/json its documents are malformed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import reference, server
from tests.emulating import AS_1_36
from tests.folders import data_folder
from tests.running import running_server

Json = dict[str, Any]

DEFINITIONS: Final = Path(__file__).with_name("definitions.yaml")
DIGESTS: Final = Path(__file__).parents[1] / "definitions" / "openapi_digests.txt"
_WAIT_SECONDS: Final = 120
# Maps whose order generators keep; not properties with these names.
_is_ordered: Final = re.compile(r".*(?<!/properties)/(properties|content)").fullmatch
_ESTABLISHED: Final = {"type": "Established", "status": "True"}


class Server(NamedTuple):
    url: str
    token: str

    def get(self, path: str) -> Json:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        # Both servers were started here, on the loopback.
        context = ssl._create_unverified_context()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), context=context) as found:
            return dict(json.load(found))


def documents(of: Server, definitions: Sequence[str]) -> dict[str, Json]:
    """Creates the definitions, waits until all are published, and returns the documents by name; v2 is `v2`."""
    files = [part for name in definitions for part in ("-f", name)]
    command = ["kubectl", "--server", of.url, "--token", of.token, "--insecure-skip-tls-verify"]
    created = subprocess.run(
        [*command, "create", "--validate=false", "-R", *files], check=False, capture_output=True, text=True
    )
    # Two folders may have the same definition, of which the second is refused.
    refused = [line for line in created.stderr.splitlines() if "already exists" not in line]
    assert not refused, refused
    deadline = time.monotonic() + _WAIT_SECONDS
    while not _are_published(of) and time.monotonic() < deadline:
        time.sleep(1)
    index = of.get("/openapi/v3")["paths"]
    return {name: of.get(entry["serverRelativeURL"]) for name, entry in index.items()} | {"v2": of.get("/openapi/v2")}


def _are_published(of: Server) -> bool:
    wanted = set()
    for definition in of.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]:
        conditions = (definition.get("status") or {}).get("conditions") or ()
        if not any(_ESTABLISHED.items() <= condition.items() for condition in conditions):
            return False
        spec = definition["spec"]
        wanted |= {(spec["group"], v["name"], spec["names"]["kind"]) for v in spec["versions"] if v["served"]}
    index = of.get("/openapi/v3")["paths"]
    if not {f"apis/{group}/{version}" for group, version, _ in wanted} <= index.keys():
        return False
    types = of.get("/openapi/v2")["definitions"].values()
    kinds = [kind for published in types for kind in published.get("x-kubernetes-group-version-kind") or ()]
    return wanted <= {(kind["group"], kind["version"], kind["kind"]) for kind in kinds}


def canonical(document: Json) -> Json:
    """A document without its descriptions, and without references to parameters, which v2 has."""
    found = _canonical(document, document.get("parameters") or {})
    return {name: value for name, value in found.items() if name != "parameters"}


def _canonical(value: Any, parameters: Mapping[str, Any], *, names: bool = False) -> Any:
    """`names`: the keys are names that users choose."""
    if isinstance(value, list):
        return [_canonical(item, parameters) for item in value]
    if not isinstance(value, dict):
        return int(value) if isinstance(value, float) and value.is_integer() else value  # 10.0 is 10 in JSON
    target = value.get("$ref")
    if isinstance(target, str) and target.startswith("#/parameters/"):
        return _canonical(parameters[target.rpartition("/")[2]], parameters)
    return {
        key: _canonical(member, parameters, names=key in ("properties", "definitions", "schemas") and not names)
        for key, member in value.items()
        if names or key != "description"
    }


def restricted(document: Json, other: Json) -> Json:
    """The document without the paths and types that the other one does not have."""
    kept = {**document, "paths": _common(document["paths"], other["paths"])}
    if "definitions" in document:
        kept["definitions"] = _common(document["definitions"], other["definitions"])
    else:
        types = [found.get("components", {}).get("schemas", {}) for found in (document, other)]
        kept["components"] = {**document.get("components", {}), "schemas": _common(*types)}
    return kept


def _common(members: Json, others: Json) -> Json:
    return {name: value for name, value in members.items() if name in others}


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            if key not in ours:
                yield f"{path}/{key}: missing here: {json.dumps(theirs[key])[:200]}"
            elif key not in theirs:
                yield f"{path}/{key}: only here: {json.dumps(ours[key])[:200]}"
            else:
                yield from differences(theirs[key], ours[key], f"{path}/{key}")
        if _is_ordered(path) and list(theirs) != list(ours) and {*theirs} == {*ours}:
            yield f"{path}: in the order {list(ours)}, not {list(theirs)}"
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{path}/{number}")
    elif theirs != ours:
        yield f"{path}: {json.dumps(theirs)[:200]} there, {json.dumps(ours)[:200]} here"


def digest(document: Json) -> str:
    return hashlib.sha256(json.dumps(canonical(document), sort_keys=True).encode()).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kube-apiserver", default="kube-apiserver")
    parser.add_argument("--etcd", default="etcd")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args()
    definitions = [str(DEFINITIONS), *options.folders]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(server.folder())
        running = stack.enter_context(reference.running(folder, options.kube_apiserver, options.etcd))
        theirs = documents(Server(running.target.url, running.target.token), definitions)
    with data_folder() as folder, running_server(folder, *AS_1_36) as running_here:
        ours = documents(Server(running_here.url, running_here.token), definitions)
    both = sorted(theirs.keys() & ours.keys())
    found = [
        f"{name} {text}"
        for name in both
        for text in differences(
            restricted(canonical(theirs[name]), canonical(ours[name])),
            restricted(canonical(ours[name]), canonical(theirs[name])),
        )
    ]
    print(*found, sep="\n")
    print(f"{len(found)} differences in {len(both)} documents")
    print(
        f"Only in kube-apiserver: {sorted(theirs.keys() - ours.keys())}. Only here: {sorted(ours.keys() - theirs.keys())}."
    )
    if options.record:
        DIGESTS.write_text("".join(f"{digest(restricted(theirs[name], ours[name]))} {name}\n" for name in both))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
