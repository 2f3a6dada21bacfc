"""Of a header that may occur once, the first one counts, as for kube-apiserver: a proxy in front may look at it."""

from __future__ import annotations

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.application import shares_application

pytestmark = shares_application

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.mark.parametrize("other", ["Bearer wrong", "Basic eDp5"])
async def test_the_first_credential_counts(api: Client, other: str) -> None:
    (await api.post(ACCOUNTS, {"metadata": {"name": "a"}})).ok(201)
    token = (await api.post(f"{ACCOUNTS}/a/token", {"spec": {}})).ok(201)["status"]["token"]
    anyone = api.with_token("")
    # Both names are sent in lower case.
    known = {"authorization": f"Bearer {token}", "Authorization": other}
    status = failure(await anyone.get("/api/v1/nodes", headers=known), 403, "Forbidden")
    assert 'User "system:serviceaccount:default:a"' in status["message"]
    unknown = {"authorization": other, "Authorization": f"Bearer {token}"}
    assert (await anyone.get("/api/v1/nodes", headers=unknown)).code == (403 if other.startswith("Basic") else 401)


@pytest.mark.parametrize("first, code", [("application/yaml", 200), ("application/json", 200), ("a/b", 406)])
async def test_the_first_accept_counts(api: Client, first: str, code: int) -> None:
    other = "application/yaml" if first == "application/json" else "application/json"
    answer = await api.get("/api/v1/namespaces/default", headers={"accept": first, "Accept": other})
    assert answer.code == code
    assert answer.header("content-type") == (first if code == 200 else "application/json")
