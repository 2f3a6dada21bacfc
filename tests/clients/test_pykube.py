"""pykube-ng, a small synchronous client: objects by factory, patches, watches, selectors."""

from __future__ import annotations

import importlib
import platform
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.installed import installed
from tests.clients.kinds import Kind
from tests.running import RunningServer

PACKAGE = "pykube-ng>=23.6,<24"


@pytest.fixture(scope="module")
def pykube(request: pytest.FixtureRequest) -> Iterator[Any]:
    """It is on no lock of ours: where it is not installed, it is installed beside what is."""
    try:
        yield importlib.import_module("pykube")
        return
    except ImportError:
        pass
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        ".",
        PACKAGE,
    ]
    assert request.config.cache is not None
    folder = installed(request.config.cache, "pykube", command, runtime=platform.python_version())
    sys.path.append(str(folder))
    try:
        importlib.invalidate_caches()
        yield importlib.import_module("pykube")
    finally:
        sys.path.remove(str(folder))


def test_objects_are_written_watched_and_read(server: RunningServer, kind: Kind, pykube: Any) -> None:
    api = pykube.HTTPClient(pykube.KubeConfig.from_file(str(server.kubeconfig)))
    gadgets = pykube.object_factory(api, f"{kind.group}/{kind.version}", kind.gadget("a")["kind"])
    made = gadgets(api, {**kind.gadget("a", size=1), "metadata": {"name": "a", "namespace": kind.namespace,
                                                                   "labels": {"of": "pykube"}}})  # fmt: skip
    made.create()
    assert made.exists()
    query = gadgets.objects(api).filter(namespace=kind.namespace)
    watch = query.watch(since=made.obj["metadata"]["resourceVersion"]).object_stream()
    made.patch({"spec": {"size": 2}})
    event = next(iter(watch))
    assert (event.type, event.object.name, event.object.obj["spec"]["size"]) == ("MODIFIED", "a", 2)
    made.obj["spec"]["size"] = 3
    made.update()
    assert [one.obj["spec"]["size"] for one in query.filter(selector={"of": "pykube"})] == [3]
    with pytest.raises(pykube.exceptions.HTTPError, match="already exists"):
        gadgets(api, kind.gadget("a", size=1)).create()
    made.delete()
    assert query.get_or_none(name="a") is None
