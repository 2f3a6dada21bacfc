"""What admission counts: kube-apiserver's names, and no name that a tenant has chosen."""

from __future__ import annotations

import pytest

from tests.admission.policies import enforce, widget
from tests.admission.webhooks import Hook, configure
from tests.api.client import Client
from tests.api.widgets import WIDGETS
from tests.http.exposition import exposition, risen

pytestmark = pytest.mark.asyncio(loop_scope="module")
WEBHOOK = "apiserver_admission_webhook"


async def test_calls_of_webhooks(api: Client, hook: Hook) -> None:
    before = await exposition(api)
    await configure(api, hook, "a")
    await configure(api, hook, "m", kind="Mutating")
    (await api.post(WIDGETS, widget("a"))).ok(201)
    hook.answer = lambda path, request: {"allowed": path == "/m", "status": {"code": 409}}
    assert (await api.post(WIDGETS, widget("b"))).code == 409
    hook.answer = lambda path, request: {"allowed": path == "/m", "status": {"code": 477}}
    assert (await api.post(WIDGETS, widget("b"))).code == 477
    assert await risen(api, before, f"{WEBHOOK}_rejection_count") == {
        f'{{error_type="no_error",operation="CREATE",rejection_code="{code}",type="validating"}}': 1
        for code in (409, 600)
    }
    assert await risen(api, before, f"{WEBHOOK}_request_total") == {
        f'{{code="{code}",operation="CREATE",rejected="{rejected}",type="{kind}"}}': count
        for code, rejected, kind, count in (
            (200, "false", "admit", 3),
            (200, "false", "validating", 1),
            (409, "true", "validating", 1),
            (600, "true", "validating", 1),
        )
    }
    assert await risen(api, before, f"{WEBHOOK}_admission_duration_seconds_count") == {
        '{operation="CREATE",rejected="false",type="admit"}': 3,
        '{operation="CREATE",rejected="false",type="validating"}': 1,
        '{operation="CREATE",rejected="true",type="validating"}': 2,
    }


async def test_webhooks_that_cannot_be_called(api: Client, hook: Hook) -> None:
    before = await exposition(api)
    hook.answer = lambda path, request: {"uid": "another"}
    await configure(api, hook, "a")
    assert (await api.post(WIDGETS, widget("a"))).code == 500
    (await api.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/c-a")).ok()
    await configure(api, hook, "b", kind="Mutating", failurePolicy="Ignore")
    (await api.post(WIDGETS, widget("a"))).ok(201)
    assert await risen(api, before, f"{WEBHOOK}_rejection_count") == {
        '{error_type="calling_webhook_error",operation="CREATE",rejection_code="503",type="validating"}': 1
    }
    assert await risen(api, before, f"{WEBHOOK}_fail_open_count") == {'{type="admit"}': 1}


async def test_checks_of_policies(api: Client) -> None:
    before = await exposition(api)
    await enforce(api, "object.spec.size < 5", binding={"validationActions": ["Warn", "Audit"]})
    (await api.post(WIDGETS, widget("a", size=9))).ok(201)
    await enforce(api, "object.spec.color == 'red'", name="q")
    assert (await api.post(WIDGETS, widget("b", size=1, color="blue"))).code == 422
    await enforce(api, "object.spec.missing == 1", name="r")
    assert (await api.post(WIDGETS, widget("c", size=1, color="red"))).code == 422
    found = await risen(api, before, "apiserver_validating_admission_policy_check_total")
    assert found == {
        f'{{enforcement_action="{action}",error_type="{error}"}}': 1
        for action, error in (
            ("warn", "no_error"),
            ("audit", "no_error"),
            ("deny", "no_error"),
            ("deny", "invalid_error"),
        )
    }
