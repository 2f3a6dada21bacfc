"""serviceaccounts/<name>/token: a new token of a service account. Nothing is stored.

Follows kubernetes pkg/registry/core/serviceaccount/storage/token.go and
pkg/apis/authentication/validation/validation.go.
"""

from __future__ import annotations

import datetime
from functools import cache, partial
from typing import Any, Final

from registry.admission.attributes import CREATE
from registry.api.admission.admitter import admitter_of
from registry.api.admission.options import write_options_json
from registry.api.answers import DocumentAnswer
from registry.api.bodies import decode_object
from registry.api.errors import Qualified, bad_request, conflict, invalid, not_found
from registry.api.metadata import agree_on_namespace
from registry.api.options import manager_of, write_options
from registry.api.ownership import field_manager_of
from registry.api.request import Body, ResourceRequest
from registry.api.served import Object, Served
from registry.api.strategies.token import TokenRequestStrategy
from registry.authentication.tokens.service_accounts import SECRETS, Reference
from registry.builtin import token_request_definition
from registry.flowcontrol.evaluation import evaluate
from registry.schema.field import FieldError, go_quote
from registry.schema.field import invalid as invalid_field
from registry.schema.names import name_is_path_segment
from registry.store.types import ObjectKey

_KIND: Final = Qualified("TokenRequest", "authentication.k8s.io")
DEFAULT_SECONDS: Final = 3600
MIN_SECONDS: Final = 10 * 60
MAX_SECONDS: Final = 1 << 32
# Kinds that the original can bind tokens to, and that are not resources here.
_ABSENT: Final = {"Pod": "pods", "Node": "nodes"}


async def request_token(request: ResourceRequest, body: Body) -> DocumentAnswer:
    """Returns 201 with the request and the token in its status."""
    options = write_options(request.query, "CreateOptions")
    asked = _as_token_request(request)
    obj = await evaluate(partial(decode_object, asked, body, options))
    agree_on_namespace(request, obj)
    _check_name(request, obj)
    context = request.context
    spec = obj["spec"] = dict(obj.get("spec") or {})
    spec.setdefault("expirationSeconds", DEFAULT_SECONDS)
    obj.pop("status", None)
    strategy = asked.served.strategy
    owned = field_manager_of(asked.served).update(
        None,
        strategy.finish(obj),
        manager_of(options, context.user_agent),
        asked.served.api_version,
        context.timestamp,
        "token",
    )
    admitter = admitter_of(asked, lambda: write_options_json("CreateOptions", options), dry_run=bool(options.dry_run))
    named = {"name": request.name, "namespace": request.namespace}
    obj = await admitter.mutate(CREATE, request.name, {**obj, "metadata": {**obj["metadata"], **named}}, None) or obj
    spec = obj["spec"]
    _check_name(request, obj)
    row, _ = await request.load()
    _check_uid(request, obj, str(row.uid))
    tokens = request.backend.tokens
    if not spec.get("audiences"):
        spec["audiences"] = [tokens.issuer_of(request.tenant.name)]
    errors = _errors(spec)
    if errors:
        raise invalid(_KIND, "", errors)
    await admitter.validate(CREATE, request.name, obj, None)
    bound = await _bound(request, spec.get("boundObjectRef"))
    seconds = spec["expirationSeconds"]
    token = await tokens.issue(
        request.tenant,
        request.namespace,
        request.name,
        row.uid,
        audiences=spec["audiences"],
        now=context.now,
        seconds=seconds,
        bound=bound,
    )
    metadata = {
        "name": request.name,
        "namespace": request.namespace,
        "uid": str(row.uid),
        "creationTimestamp": context.timestamp,
    }
    managed = owned["metadata"].get("managedFields")
    if managed:
        metadata["managedFields"] = managed
    ends = context.now + datetime.timedelta(seconds=seconds)
    status = {"token": token, "expirationTimestamp": ends.isoformat(timespec="seconds")[:19] + "Z"}
    answer = strategy.finish({**obj, "metadata": {**obj["metadata"], **metadata}, "status": status})
    return DocumentAnswer(answer, 201, asked.served.table)


def _as_token_request(request: ResourceRequest) -> ResourceRequest:
    """Returns the request as one for the kind of its body."""
    return request._replace(served=_served())


@cache
def _served() -> Served:
    definition = token_request_definition()
    version = definition.versions["v1"]
    return Served(definition, version, TokenRequestStrategy(definition, version))


def _check_name(request: ResourceRequest, obj: Object) -> None:
    given = obj["metadata"].get("name")
    if given and given != request.name:
        error = invalid_field("metadata.name", given, "must match the service account name if specified")
        raise invalid(_KIND, request.name, [error])


def _check_uid(request: ResourceRequest, obj: Object, uid: str) -> None:
    given = obj["metadata"].get("uid")
    if given and given != uid:
        raise conflict(
            _KIND,
            request.name,
            f"the UID in the token request ({given}) does not match the UID of the service account ({uid})",
        )


def _errors(spec: Object) -> list[FieldError]:
    seconds = spec["expirationSeconds"]
    if seconds < MIN_SECONDS:
        return [invalid_field("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")]
    if seconds > MAX_SECONDS:
        return [invalid_field("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


async def _bound(request: ResourceRequest, ref: dict[str, Any] | None) -> Reference | None:
    """Returns the reference that the token is bound to. The object must exist, with the given uid."""
    if ref is None:
        return None
    kind, api_version, name, uid = (ref.get(k) or "" for k in ("kind", "apiVersion", "name", "uid"))
    group, _, version = api_version.rpartition("/") if api_version.count("/") < 2 else ("", "", "")
    if group or (kind not in _ABSENT and kind != "Secret"):
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    if not name:
        raise bad_request("Name parameter required.")
    if problems := name_is_path_segment(name):
        raise bad_request(f"Name parameter invalid: {go_quote(name)}: {';'.join(problems)}")
    if kind in _ABSENT:
        raise not_found(Qualified(_ABSENT[kind]), name)
    row, _state = await request.backend.store.load(request.tenant, SECRETS, ObjectKey(f"{request.namespace}/{name}"))
    if row is None:
        raise not_found(Qualified("secrets"), name)
    if uid and uid != row.uid:
        raise conflict(
            Qualified("Secret"),
            name,
            f"the UID in the bound object reference ({uid}) does not match the "
            "UID in record. The object might have been deleted and then recreated",
        )
    return Reference("secret", name, str(row.uid))
