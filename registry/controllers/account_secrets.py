"""Fills secrets of the type kubernetes.io/service-account-token with a token of the account that they name.

A secret whose account does not exist, or has another uid, is deleted. The token is bound to the secret and does not
expire; other data of the secret is kept. Follows kubernetes pkg/controller/serviceaccount/tokens_controller.go.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from typing import Any, Final

from registry.api.decoding import metadata_of, object_of
from registry.api.served import Object
from registry.api.strategies.data import ACCOUNT_NAME, ACCOUNT_TOKEN
from registry.api.verbs.update import copy_of
from registry.authentication.tokens.service_accounts import SECRETS, SERVICE_ACCOUNTS, AccountReference, BoundReference
from registry.controllers.controller_client import CONTROLLER_MANAGER, ControllerClient
from registry.store.types import ObjectKey, Requirement, Row, SelectorOperator
from registry.tasks import gather_all

# Accounts are often deleted together: their secrets are looked for once, when none of the tenant has been deleted for
# so long, but at most this long after the first.
QUIET_SECONDS: Final = 0.25
MAX_DEBOUNCE_SECONDS: Final = 5.0
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
_OF_ACCOUNTS: Final = Requirement("f:type", SelectorOperator.IN, (ACCOUNT_TOKEN,))


async def reconcile_account(client: ControllerClient, key: ObjectKey, check: Callable[[ObjectKey], object]) -> None:
    """Calls `check` with the namespace of a deleted account, as `<namespace>/`: its secrets are due."""
    row, _ = await client.backend.store.load(client.tenant, SERVICE_ACCOUNTS, key)
    if row is None:
        check(ObjectKey(f"{key.partition('/')[0]}/"))


async def reconcile_secrets(client: ControllerClient, namespace: str, root_ca: str) -> None:
    """Deletes the secrets of all accounts of a namespace that are gone."""
    store, tenant = client.backend.store, client.tenant
    async for page in store.scan(tenant, SECRETS, namespace=namespace, requirements=(_OF_ACCOUNTS,)):
        accounts = {secret.key: _account_of(await metadata_of(secret.body)) for secret in page.rows}
        names = list({name for name, _ in accounts.values()})
        keys = [ObjectKey(f"{namespace}/{name}") for name in names]
        # Read together, by few statements.
        loaded = await gather_all(store.load(tenant, SERVICE_ACCOUNTS, key) for key in keys)
        rows = {name: row for name, (row, _) in zip(names, loaded, strict=True)}
        for key, (name, uid) in accounts.items():
            if _is_gone(rows[name], uid):
                await reconcile_secret(client, key, root_ca)


async def reconcile_secret(client: ControllerClient, key: ObjectKey, root_ca: str) -> None:
    """Fills a secret, or deletes it if its account is gone."""
    store, tenant = client.backend.store, client.tenant
    row, _ = await store.load(tenant, SECRETS, key)
    if row is None:
        return
    secret = await object_of(row.body)
    if secret.get("type") != ACCOUNT_TOKEN or secret["metadata"].get("deletionTimestamp"):
        return
    namespace, _, _ = key.partition("/")
    name, uid = _account_of(secret["metadata"])
    account, _ = await store.load(tenant, SERVICE_ACCOUNTS, ObjectKey(f"{namespace}/{name}"))
    if account is None or _is_gone(account, uid):
        await client.with_manager(CONTROLLER_MANAGER).delete_row("secrets", row)
    elif not secret.get("immutable"):
        await _fill(client, row, secret, account, root_ca)


async def _fill(client: ControllerClient, row: Row, secret: dict[str, Any], account: Row, root_ca: str) -> None:
    data = secret.get("data") or {}
    tokens = client.backend.tokens
    wanted = {"namespace": _base64(row.key.partition("/")[0]), **({"ca.crt": _base64(root_ca)} if root_ca else {})}
    right = data.get("token") and all(data.get(name) == value for name, value in wanted.items())
    if right and _annotations(secret).get(ACCOUNT_UID) == account.uid:
        return
    namespace, _, name = row.key.partition("/")
    if not data.get("token"):
        token = await tokens.issue(
            client.tenant,
            AccountReference(namespace, account.key.partition("/")[2], str(account.uid)),
            audiences=[tokens.issuer_of(client.tenant.name)],
            now=datetime.datetime.now(datetime.UTC),
            seconds=None,
            bound=BoundReference("secret", name, str(row.uid)),
        )
        wanted["token"] = _base64(token)

    def fill(old: dict[str, Any]) -> dict[str, Any]:
        new = copy_of(old)
        new["data"] = {**(old.get("data") or {}), **wanted}
        annotations = {**_annotations(old), ACCOUNT_UID: str(account.uid)}
        new["metadata"] = {**new["metadata"], "annotations": annotations}
        return new

    await client.with_manager(CONTROLLER_MANAGER).change("", "secrets", row.key, fill, uid=str(row.uid))


def _account_of(metadata: Object) -> tuple[str, str]:
    """Returns name and uid of the account that a secret is for; the uid is empty until the secret is filled."""
    annotations = metadata.get("annotations") or {}
    return annotations.get(ACCOUNT_NAME) or "", annotations.get(ACCOUNT_UID) or ""


def _is_gone(account: Row | None, uid: str) -> bool:
    return account is None or bool(uid and uid != account.uid)


def _annotations(obj: dict[str, Any]) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
