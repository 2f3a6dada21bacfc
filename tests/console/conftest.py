"""One browser and one server with two workers for all tests of pages, since Chromium is expensive to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.browser import CHROMIUM, Browser, Page, running_browser
from tests.console.seed import client, ok, seed
from tests.folders import data_folder
from tests.processes import registry
from tests.running import RunningServer, running_server


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not on this machine")
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def server(browser: Browser) -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder / "data", "--workers", "2") as running:
        seed(running)
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab in which nobody is signed in. Whatever it logs as an error fails the test."""
    with browser.page() as page:
        yield page
        page.wait("true")  # takes in what has been logged until now
        assert page.problems == []


@pytest.fixture
def http(server: RunningServer) -> Iterator[Any]:
    with client(server) as made:
        yield made


@pytest.fixture(scope="package")
def tokens(server: RunningServer) -> dict[str, str]:
    """Users of the tenant shop: `editor` has all rights in it, `reader` the role view with the kinds of demo."""
    made = {}
    for user, more in (("editor", ["--group", "system:masters"]), ("reader", []), ("nobody", [])):
        done = registry("token", "create", "--user", user, "--tenant", "shop", *more, "--data-dir", server.data_dir)
        assert done.returncode == 0, done.stderr
        made[user] = done.stdout.strip()
    groups = ["", "demo.example.com", "apiextensions.k8s.io"]
    resources = ["backups", "runs", "namespaces", "configmaps", "events", "customresourcedefinitions"]
    rules = [{"apiGroups": groups, "resources": resources, "verbs": ["get", "list", "watch"]}]
    base = "/clusters/shop/apis/rbac.authorization.k8s.io/v1"
    with client(server) as http:
        ok(http.post(f"{base}/clusterroles", json={"metadata": {"name": "readers"}, "rules": rules}))
        binding = {
            "metadata": {"name": "readers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"},
            "subjects": [{"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}],
        }
        ok(http.post(f"{base}/clusterrolebindings", json=binding))
    return made
