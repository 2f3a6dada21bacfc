"""serviceaccounts/<name>/token: a new token of a service account, by the stages of a create. Nothing is stored.

Follows kubernetes pkg/registry/core/serviceaccount/storage/token.go and
pkg/apis/authentication/validation/validation.go.
"""

from __future__ import annotations

import uuid
from functools import cache, partial
from typing import Any, Final

from registry.api.admission.namespace_lifecycle import require_active_namespace
from registry.api.answers import DocumentAnswer
from registry.api.errors import Qualified, bad_request, conflict, invalid, not_found, refused_key
from registry.api.ownership import field_manager_of
from registry.api.request import Body, CatalogStale, ResourceRequest
from registry.api.served import Object, Served
from registry.api.strategies.serviceaccount import TokenRequestStrategy
from registry.api.verbs.computed import ComputedOperation, compute
from registry.api.verbs.pipeline import Draft, Outcome, Start
from registry.authentication.tokens.service_accounts import SECRETS, SERVICE_ACCOUNTS, AccountReference, BoundReference
from registry.builtin import token_request_definition
from registry.flowcontrol.evaluation import evaluate
from registry.schema.field import FieldError
from registry.schema.field import invalid as invalid_field
from registry.schema.names import name_is_path_segment
from registry.store.types import ObjectKey

_KIND: Final = Qualified("TokenRequest", "authentication.k8s.io")
DEFAULT_SECONDS: Final = 3600
MIN_SECONDS: Final = 10 * 60
MAX_SECONDS: Final = 1 << 32
# The audit annotation by which a leaked token's request is found (apiserver pkg/authentication/serviceaccount/util.go).
_ISSUED: Final = "authentication.kubernetes.io/issued-credential-id"
# Kinds that the original can bind tokens to, and that are not resources here.
_ABSENT: Final = {"Pod": "pods", "Node": "nodes"}


async def request_token(request: ResourceRequest, body: Body) -> DocumentAnswer:
    """Returns 201 with the request and the token in its status."""
    return await compute(request._replace(served=_served()), body, TokenOperation)


class TokenOperation(ComputedOperation):
    """A create that stores nothing; `start.row` is the service account, None if there is none."""

    async def load(self, request: ResourceRequest) -> Start:
        key = ObjectKey(f"{request.namespace}/{request.name}")
        row, state = await request.backend.store.load(request.tenant, SERVICE_ACCOUNTS, key)
        if state.guards != request.catalog.guards:
            raise CatalogStale(state.guards)  # nothing is committed that would notice a terminating namespace
        return Start(row, state.guards)

    async def make(self, request: ResourceRequest, start: Start) -> Draft:
        accounts = request.catalog.served("", "v1", SERVICE_ACCOUNTS)
        assert accounts is not None
        await require_active_namespace(request._replace(served=accounts), request.name)
        return await evaluate(partial(self._draft, request, start))

    def _draft(self, request: ResourceRequest, start: Start) -> Draft:
        served, spec = request.served, dict(self.obj.get("spec") or {})
        spec.setdefault("expirationSeconds", DEFAULT_SECONDS)
        owned = field_manager_of(served).update(
            None,
            served.strategy.finish({**self.obj, "spec": spec}),
            self.manager,
            served.api_version,
            request.context.timestamp,
            "token",
        )
        return Draft(start, request.name, None, owned)

    def prepare(self, request: ResourceRequest, draft: Draft) -> None:
        """Fills in what the service account determines. Raises 422 for another name, 404 without the account."""
        obj, row = draft.new, draft.start.row
        _require_same(request, "name", request.name, obj)
        _require_same(request, "namespace", request.namespace, obj)
        if row is None:
            raise not_found(Qualified(SERVICE_ACCOUNTS), request.name)
        _check_uid(request, obj, str(row.uid))
        spec = dict(obj["spec"])
        if not spec.get("audiences"):
            spec["audiences"] = [request.backend.tokens.issuer_of(request.tenant.name)]
        metadata = {
            **obj["metadata"],
            "name": request.name,
            "namespace": request.namespace,
            "uid": str(row.uid),
            "creationTimestamp": request.context.timestamp,
        }
        draft.new = request.served.strategy.finish({**obj, "metadata": metadata, "spec": spec, "status": {}})

    def validate(self, request: ResourceRequest, draft: Draft) -> None:
        errors = _errors(draft.new["spec"])
        if errors:
            raise invalid(_KIND, "", errors)

    async def commit(self, request: ResourceRequest, draft: Draft) -> Outcome:
        """Issues the token, also in a dry run, as the original does."""
        row, spec = draft.start.row, draft.new["spec"]
        assert row is not None
        token_id = str(uuid.uuid4())
        token = await request.backend.tokens.issue(
            request.tenant,
            AccountReference(request.namespace, request.name, row.uid),
            audiences=spec["audiences"],
            now=request.context.now,
            seconds=spec["expirationSeconds"],
            bound=await _bound_reference(request, spec.get("boundObjectRef")),
            token_id=token_id,
        )
        request.context.annotate(_ISSUED, f"JTI={token_id}")
        status = {"token": token, "expirationTimestamp": request.context.timestamp_in(spec["expirationSeconds"])}
        return Outcome(obj={**draft.new, "status": status})


@cache
def _served() -> Served:
    definition = token_request_definition()
    version = definition.versions["v1"]
    return Served(definition, version, TokenRequestStrategy(definition, version))


def _require_same(request: ResourceRequest, field: str, wanted: str, obj: Object) -> None:
    """Raises 422 if the body names another service account than the path."""
    value = obj["metadata"].get(field)
    if value and value != wanted:
        error = invalid_field(f"metadata.{field}", value, f"must match the service account {field} if specified")
        raise invalid(_KIND, request.name, [error])


def _check_uid(request: ResourceRequest, obj: Object, uid: str) -> None:
    requested = obj["metadata"].get("uid")
    if requested and requested != uid:
        why = f"the UID in the token request ({requested}) does not match the UID of the service account ({uid})"
        raise conflict(_KIND, request.name, why)


def _errors(spec: Object) -> list[FieldError]:
    seconds = spec["expirationSeconds"]
    if seconds < MIN_SECONDS:
        return [invalid_field("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")]
    if seconds > MAX_SECONDS:
        return [invalid_field("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


async def _bound_reference(request: ResourceRequest, ref: dict[str, Any] | None) -> BoundReference | None:
    """Returns the reference that the token is bound to. The object must exist, with the given uid."""
    if ref is None:
        return None
    kind, api_version, name, uid = (ref.get(k) or "" for k in ("kind", "apiVersion", "name", "uid"))
    group, _, version = api_version.rpartition("/") if api_version.count("/") < 2 else ("", "", "")
    if group or (kind not in _ABSENT and kind != "Secret"):
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    if (problems := name_is_path_segment(name)) or not name:
        raise refused_key(name, problems)
    if kind in _ABSENT:
        raise not_found(Qualified(_ABSENT[kind]), name)
    row, _state = await request.backend.store.load(request.tenant, SECRETS, ObjectKey(f"{request.namespace}/{name}"))
    if row is None:
        raise not_found(Qualified("secrets"), name)
    if uid and uid != row.uid:
        why = (
            f"the UID in the bound object reference ({uid}) does not match the "
            "UID in record. The object might have been deleted and then recreated"
        )
        raise conflict(Qualified("Secret"), name, why)
    return BoundReference("secret", name, str(row.uid))
