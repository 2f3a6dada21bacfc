"""The config map from which servers of APIServices learn whom to trust: it is made, and made again."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography import x509

from tests.api.client import Client, eventually
from tests.application import shares_application

pytestmark = shares_application

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
NAME = "extension-apiserver-authentication"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
OTHER_CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

CHANGES: dict[str, Any] = {
    "deleted": None,
    "another CA": {"data": {"requestheader-client-ca-file": OTHER_CA}},
    "one more CA for clients": {"data": {"client-ca-file": OTHER_CA}},
    "another name": {"data": {"requestheader-allowed-names": '["me"]'}},
    "another header": {"data": {"requestheader-username-headers": '["X-Other"]'}},
    "no data": {"data": None},
    "more data": {"data": {"more": "x"}},
    "another CA for good": {"data": {"requestheader-client-ca-file": OTHER_CA}, "immutable": True},
}


async def _found(api: Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    async def is_there() -> bool:
        answer = await api.get(f"{CONFIG_MAPS}/{name}")
        found.update(answer.json)
        return answer.code == 200

    await eventually(is_there)
    return found


def _trusted(config_map: dict[str, Any]) -> dict[str, Any]:
    """The data, with the key of the front proxy's CA in place of its certificate, whose signature varies."""
    data = dict(config_map.get("data") or {})
    if (ca := data.get("requestheader-client-ca-file")) not in (None, OTHER_CA):
        data["requestheader-client-ca-file"] = x509.load_pem_x509_certificate(ca.encode()).public_key()
    return data


async def test_its_contents(api: Client) -> None:
    found = await _found(api, NAME)
    ca = found["data"].pop("requestheader-client-ca-file")
    assert ca.startswith("-----BEGIN CERTIFICATE-----\n")
    assert found["data"] == {
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    assert [entry["manager"] for entry in found["metadata"]["managedFields"]] == ["kube-apiserver"]


@pytest.mark.parametrize("name", [NAME, "kube-root-ca.crt"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_it_is_restored(api: Client, name: str, change: Any) -> None:
    before = await _found(api, name)
    path = f"{CONFIG_MAPS}/{name}"
    (await (api.delete(path) if change is None else api.patch(path, change))).ok(200)

    async def is_restored() -> bool:
        answer = await api.get(path)
        return answer.code == 200 and _trusted(answer.json) == _trusted(before)

    await eventually(is_restored)


async def test_its_role(api: Client) -> None:
    role = f"{NAME}-reader"
    assert (await api.get(f"{RBAC}/roles/{role}")).ok(200)["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get", "list", "watch"]}
    ]
    bound = (await api.get(f"{RBAC}/rolebindings/system::{role}")).ok(200)
    assert bound["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
    assert [subject["name"] for subject in bound["subjects"]] == [
        "system:kube-controller-manager",
        "system:kube-scheduler",
    ]
