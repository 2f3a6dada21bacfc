"""Namespaces, roles and their bindings in SQL, and the list of the views that a login can use."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.folders import data_folder
from tests.processes import registry
from tests.reporting.outsiders import CRD, VIEW, Outsiders, logged_in
from tests.reporting.reports import Reports, definition
from tests.running import RunningServer, running_server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = "roles_rbac_authorization_k8s_io"
BINDINGS = "rolebindings_rbac_authorization_k8s_io"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """With the tenants acme and beta, each with a namespace, a role and a binding called after it."""
    with data_folder() as folder, running_server(folder / "data") as running:
        for tenant in ("acme", "beta"):
            done = registry("tenant", "create", tenant, "--no-administrator", "--data-dir", running.data_dir)
            assert done.returncode == 0, done.stderr
            root = f"/clusters/{tenant}"
            _call(running, "POST", f"{root}/api/v1/namespaces", _named("Namespace", tenant, "v1"))
            rule = {"apiGroups": [""], "resources": ["secrets", "configmaps"], "verbs": ["get"]}
            _call(
                running, "POST", f"{root}{RBAC}/namespaces/{tenant}/roles", _named("Role", tenant) | {"rules": [rule]}
            )
            binding = _named("RoleBinding", tenant) | {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": tenant},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"user-of-{tenant}"}],
            }
            _call(running, "POST", f"{root}{RBAC}/namespaces/{tenant}/rolebindings", binding)
        yield running


def _named(kind: str, name: str, version: str = "rbac.authorization.k8s.io/v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _call(server: RunningServer, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        server.url + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=server.authority)) as answer:
        return json.load(answer)


def _login(server: RunningServer, name: str, *which: str) -> psycopg.Connection[Any]:
    done = registry("sql", "grant", name, *which, "--data-dir", server.data_dir)
    assert done.returncode == 0, done.stderr
    return psycopg.connect(done.stdout.strip(), autocommit=True)


def _rows(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


@pytest.mark.slow
def test_views_of_roles_and_bindings(server: RunningServer) -> None:
    with _login(server, "acme_bi", "--tenant", "acme") as login:
        namespaces = _rows(login, "SELECT tenant, name, status_phase, created_by IS NOT NULL FROM namespaces")
        assert ("acme", "acme", "Active", True) in namespaces
        assert {row[0] for row in namespaces} == {"acme"}
        assert _rows(
            login, f"SELECT namespace, name, resources, verbs FROM {ROLES}__rules WHERE namespace = 'acme'"
        ) == [("acme", "acme", ["secrets", "configmaps"], ["get"])]
        subjects = (
            f"SELECT b.role_ref_name, s.kind, s.name_field FROM {BINDINGS} b JOIN {BINDINGS}__subjects s USING (uid)"
        )
        subjects += " WHERE b.namespace = 'acme'"
        assert _rows(login, subjects) == [("acme", "User", "user-of-acme")]
        assert _rows(login, f"SELECT DISTINCT object -> 'metadata' ? 'managedFields' FROM {ROLES}_raw") == [(False,)]
        assert _rows(login, "SELECT count(*) > 5 FROM clusterroles_rbac_authorization_k8s_io") == [(True,)]


@pytest.mark.slow
def test_history_of_built_in_kinds(server: RunningServer) -> None:
    """History of a binding that has been withdrawn."""
    path = f"/clusters/beta{RBAC}/namespaces/beta/rolebindings/beta"
    _call(server, "DELETE", path)
    with _login(server, "beta_bi", "--tenant", "beta") as login:
        assert _rows(login, f"SELECT name FROM {BINDINGS} WHERE namespace = 'beta'") == []
        states = f"SELECT operation, role_ref_name, valid_to IS NOT NULL FROM {BINDINGS}_history"
        states += " WHERE namespace = 'beta' ORDER BY revision"
        assert _rows(login, states) == [("create", "beta", True), ("delete", "beta", True)]
        subjects = f"SELECT operation, s.name_field FROM {BINDINGS}__subjects_history s"
        subjects += " WHERE namespace = 'beta' ORDER BY revision"
        assert _rows(login, subjects) == [("create", "user-of-beta"), ("delete", "user-of-beta")]
        since = f"SELECT valid_from FROM {BINDINGS}_history WHERE namespace = 'beta' AND operation = 'create'"
        before = f"SELECT name FROM {BINDINGS}_as_of(({since})) WHERE namespace = 'beta'"
        assert _rows(login, before) == [("beta",)]


@pytest.mark.slow
def test_views_over_all_tenants(server: RunningServer) -> None:
    with _login(server, "both", "--tenants", "acme,beta") as login:
        assert _rows(login, f"SELECT tenant, name FROM {ROLES} WHERE name = tenant ORDER BY 1") == [
            ("acme", "acme"),
            ("beta", "beta"),
        ]
        assert {row[0] for row in _rows(login, "SELECT DISTINCT tenant FROM namespaces")} == {"acme", "beta"}


@pytest.mark.slow
def test_stored_bodies_and_secrets_cannot_be_read(server: RunningServer) -> None:
    """The views decode bodies; a login reads none, nor those of kinds without views."""
    with _login(server, "acme_bi", "--tenant", "acme") as login:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            login.execute("SELECT body FROM objects" if _in_public(login) else "SELECT body FROM public.objects")
        views = {row[0] for row in _rows(login, "SELECT definition FROM views")}
        assert "secrets" not in views
        assert "configmaps" not in views


def _in_public(login: psycopg.Connection[Any]) -> bool:
    return not _rows(login, "SELECT 1 FROM pg_tables WHERE schemaname = 'public' AND tablename = 'objects'")


@pytest.fixture
async def outsiders(reports: Reports) -> Outsiders:
    return await logged_in(reports)


async def test_the_views_of_a_login_are_those_of_its_tenants(outsiders: Outsiders) -> None:
    await outsiders.reports.define("beta", definition("gadgets", {"parts": _ARRAY}))

    def views(login: str) -> set[tuple[str, ...]]:
        found = outsiders.ask(login, "SELECT view, definition, shows FROM views")
        return {row for row in found if row[1].endswith(".example.com")}

    mine = {
        (VIEW, CRD["metadata"]["name"], "objects"),
        (f"{VIEW}_raw", CRD["metadata"]["name"], "whole objects"),
        (f"{VIEW}_history", CRD["metadata"]["name"], "states of objects"),
    }
    assert views("one") == mine, "nothing of beta's"
    gadgets = {view: shows for view, name, shows in views("some") if name == "gadgets.example.com"}
    assert gadgets == {
        "gadgets_example_com": "objects",
        "gadgets_example_com_raw": "whole objects",
        "gadgets_example_com_history": "states of objects",
        "gadgets_example_com__parts": "elements of parts[]",
        "gadgets_example_com__parts_history": "states of elements of parts[]",
    }


async def test_every_listed_view_can_be_read(outsiders: Outsiders) -> None:
    for login in ("one", "all"):
        listed = [row[0] for row in outsiders.ask(login, "SELECT view FROM views")]
        assert f"{ROLES}__rules_history" in listed
        for view in listed:
            outsiders.ask(login, f'SELECT * FROM "{view}" LIMIT 1')


async def test_a_definition_of_the_same_name_has_another_view(reports: Reports) -> None:
    """Dashes and dots are underscores in names of views."""
    crd = definition("roles", {"x": {"type": "string"}})
    crd["metadata"]["name"], crd["spec"]["group"] = "roles.rbac.authorization-k8s.io", "rbac.authorization-k8s.io"
    outcome = await reports.define("acme", crd)
    assert outcome.state == "ready"
    assert outcome.view.startswith(f"{ROLES}_")
    assert reports.columns(f"{ROLES}__rules")[-1] == "non_resource_urls", "the kind's own views are as they were"


_ARRAY = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}
