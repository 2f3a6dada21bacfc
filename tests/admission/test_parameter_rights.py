"""The rights to the parameters of policies: who writes a policy or binding must be able to read them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.admission.policies import ADMISSION, named, rule
from tests.api.client import Answer, Client
from tests.api.errors import failure

pytestmark = pytest.mark.asyncio(loop_scope="module")

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SECRET, CONFIG, UNKNOWN = (
    {"apiVersion": version, "kind": kind} for version, kind in (("v1", "Secret"), ("v1", "ConfigMap"), ("a.b/v1", "C"))
)
WRITER = "&{pat  [system:authenticated] map[]}"


async def allow(api: Client, name: str, *rules: dict[str, Any]) -> None:
    """Gives the user pat the rules in all namespaces."""
    role = {"metadata": {"name": name}, "rules": list(rules)}
    (await api.post(f"{RBAC}/clusterroles", role)).ok(201)
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": "pat"}],
    }
    (await api.post(f"{RBAC}/clusterrolebindings", binding)).ok(201)


@pytest_asyncio.fixture(loop_scope="module")
async def grants(api: Client) -> AsyncIterator[None]:
    """Removes the grants of a test after it."""
    yield
    for name in ("writes-policies", "reads"):
        for plural in ("clusterrolebindings", "clusterroles"):
            await api.delete(f"{RBAC}/{plural}/{name}")


def policy(family: str, name: str, kind: dict[str, str] | None) -> dict[str, Any]:
    rules: dict[str, Any] = (
        {"validations": [{"expression": "true"}]}
        if family == "validating"
        else {
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": "Object{metadata: object.metadata}"},
                }
            ],
            "reinvocationPolicy": "Never",
        }
    )
    if kind is not None:
        rules["paramKind"] = kind
    return named(
        f"{family.title()}AdmissionPolicy", name, matchConstraints={"resourceRules": [rule("CREATE")]}, **rules
    )


async def write(api: Client, family: str, body: dict[str, Any], *, user: str = "pat") -> Answer:
    plural = {"Policy": "policies", "PolicyBinding": "policybindings"}[body["kind"].rpartition("Admission")[2]]
    headers = {"Impersonate-User": user} if user else {}
    return await api.post(f"{ADMISSION}/{family}admission{plural}", body, headers=headers)


def binding(family: str, name: str, /, **ref: Any) -> dict[str, Any]:
    more = {"validationActions": ["Deny"]} if family == "validating" else {}
    of_params = {"paramRef": {**ref, "parameterNotFoundAction": "Deny"}} if ref else {}
    return named(f"{family.title()}AdmissionPolicyBinding", name, policyName=name, **more, **of_params)


@pytest.mark.usefixtures("grants")
@pytest.mark.parametrize("family", ["validating", "mutating"])
async def test_parameters_must_be_readable(api: Client, family: str) -> None:
    group = "admissionregistration.k8s.io"
    await allow(api, "writes-policies", {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]})
    (await write(api, family, policy(family, "none", None))).ok(201)

    async def refused(body: dict[str, Any], field: str, why: str) -> None:
        status = failure(await write(api, family, body), 422, "Invalid")
        assert [(c["field"], c["message"]) for c in status["details"]["causes"]] == [(field, f"Forbidden: {why}")]

    no_kind = 'user {} must have "get" permission on all objects of the referenced paramKind (kind={}, apiVersion={})'
    await refused(policy(family, "s", SECRET), "spec.paramKind", no_kind.format(WRITER, "Secret", "v1"))
    await refused(policy(family, "u", UNKNOWN), "spec.paramKind", no_kind.format(WRITER, "C", "a.b/v1"))
    for name, kind in (("secret", SECRET), ("config", CONFIG), ("unknown", UNKNOWN)):
        (await write(api, family, policy(family, name, kind), user="")).ok(201)
    who, verb = (WRITER, "get") if family == "validating" else ("get", WRITER)
    ref = {"name": "x", "namespace": "default"}
    no_object = f'user {who} does not have "{verb}" permission on the object referenced by paramRef'
    await refused(binding(family, "secret", **ref), "spec.paramRef", no_object)

    def lacks(verb: str) -> str:
        everything = f'user {WRITER} does not have "{verb}" permission for all groups, versions and resources'
        return f"to determine minimum required permissions and {everything}"

    no_resource = f"unable to resolve paramKind &{{a.b/v1 C}} {lacks('get')}"
    await refused(binding(family, "unknown", **ref), "spec.paramRef", no_resource)
    no_policy = f"unable to get policy missing {lacks('list')}"
    await refused(binding(family, "missing", selector={}), "spec.paramRef", no_policy)
    (await write(api, family, binding(family, "secret"))).ok(201)

    await allow(api, "reads", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]})
    (await write(api, family, binding(family, "config", **ref))).ok(201)
    (await write(api, family, policy(family, "config-too", CONFIG))).ok(201)
    await refused(policy(family, "s", SECRET), "spec.paramKind", no_kind.format(WRITER, "Secret", "v1"))


@pytest.mark.usefixtures("grants")
async def test_a_change_is_checked_only_if_it_names_other_parameters(api: Client) -> None:
    group = "admissionregistration.k8s.io"
    await allow(api, "writes-policies", {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]})
    (await write(api, "validating", policy("validating", "p", SECRET), user="")).ok(201)
    path, as_pat = f"{ADMISSION}/validatingadmissionpolicies/p", {"Impersonate-User": "pat"}
    (await api.patch(path, {"spec": {"failurePolicy": "Ignore"}}, headers=as_pat)).ok()
    failure(await api.patch(path, {"spec": {"paramKind": CONFIG}}, headers=as_pat), 422, "Invalid")
    (await api.patch(path, {"spec": {"paramKind": None}}, headers=as_pat)).ok()


RESERVED = (
    'names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via '
    "the API"
)


@pytest.mark.parametrize("family", ["validating", "mutating"])
async def test_names_that_files_reserve(api: Client, family: str) -> None:
    name = "a.static.k8s.io"
    for body in (policy(family, name, None), binding(family, name)):
        status = failure(await write(api, family, body, user=""), 422, "Invalid")
        assert status["message"].endswith(f'metadata.name: Invalid value: "{name}": {RESERVED}')


@pytest.mark.usefixtures("as_1_36")
@pytest.mark.parametrize("family", ["validating", "mutating"])
async def test_names_that_files_reserve_get_a_warning_in_1_36(api: Client, family: str) -> None:
    reserved = f"metadata.name: {RESERVED}"
    name = "a.static.k8s.io"
    for body in (policy(family, name, None), binding(family, name)):
        assert (await write(api, family, body, user="")).warnings == [reserved]
    configuration = {"metadata": {"name": name}}
    path = f"{ADMISSION}/{family}webhookconfigurations"
    assert (await api.post(path, configuration)).warnings == [reserved]
    assert (await api.patch(f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}})).warnings == [reserved]
