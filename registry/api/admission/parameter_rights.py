"""Checks that the writer of a policy or binding may read the objects that it uses as parameters.

Expressions can put parameters into messages and audit annotations, so without this check the right to write policies
would include the right to read any Secret of the tenant.

Follows kubernetes pkg/registry/admissionregistration/{validating,mutating}admissionpolicy{,binding}/authz.go at v1.36.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.admission.configuration import (
    GROUP,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    VALIDATING_BINDINGS,
    VALIDATING_POLICIES,
)
from registry.admission.policies import ParamKind
from registry.api.admission.inputs import param_resource
from registry.api.decoding import object_of
from registry.api.errors import invalid
from registry.api.request import ResourceRequest
from registry.api.served import Object
from registry.authentication.user import User
from registry.authorization.attributes import Attributes
from registry.schema.field import FieldError, forbidden
from registry.store.types import ObjectKey, ResourceName

_POLICIES_OF: Final = {VALIDATING_BINDINGS: VALIDATING_POLICIES, MUTATING_BINDINGS: MUTATING_POLICIES}


async def require_parameter_rights(request: ResourceRequest, new: Object, old: Object | None) -> None:
    """Raises 422 if the user may not read the parameters of `new`, a validated policy or binding; `old` is replaced."""
    user, plural = request.context.user, request.served.resource.name
    if request.served.definition.group != GROUP or request.subresource:
        return
    if user.is_administrator or request.context.by_server:
        return
    spec = new.get("spec") or {}
    error = None
    if plural in _POLICIES_OF:
        if spec.get("paramRef") is not None:
            error = await _binding_error(request, _POLICIES_OF[plural], spec)
    elif spec.get("paramKind") is not None and spec["paramKind"] != ((old or {}).get("spec") or {}).get("paramKind"):
        error = await _policy_error(request, spec["paramKind"])
    if error is not None:
        raise invalid(request.served.kind, new["metadata"].get("name") or "", [error])


async def _policy_error(request: ResourceRequest, kind: Mapping[str, Any]) -> FieldError | None:
    group, resource = _resource_of(request, kind)
    if await _may(request, "get", group, resource or "*", "*", "*"):
        return None
    why = (
        f'user {_go_user(request.context.user)} must have "get" permission on all objects of the referenced paramKind '
        f"(kind={kind.get('kind') or ''}, apiVersion={kind.get('apiVersion') or ''})"
    )
    return forbidden("spec.paramKind", why)


async def _binding_error(request: ResourceRequest, policies: str, spec: Mapping[str, Any]) -> FieldError | None:
    ref, policy = spec["paramRef"], spec.get("policyName") or ""
    name, namespace = ref.get("name") or "", ref.get("namespace") or ""
    row, _ = await request.backend.store.load(request.tenant, ResourceName(f"{policies}.{GROUP}"), ObjectKey(policy))
    kind = ((await object_of(row.body)).get("spec") or {}).get("paramKind") if row is not None else None
    group, resource = _resource_of(request, kind) if kind is not None else ("*", None)
    verb = "get" if name else "list"
    if await _may(request, verb, group, resource or "*", namespace, name):
        return None
    user = _go_user(request.context.user)
    why = f'and user {user} does not have "{verb}" permission for all groups, versions and resources'
    if row is None:
        text = f"unable to get policy {policy} to determine minimum required permissions {why}"
    elif kind is not None and resource is None:
        of_kind = f"&{{{kind.get('apiVersion') or ''} {kind.get('kind') or ''}}}"
        text = f"unable to resolve paramKind {of_kind} to determine minimum required permissions {why}"
    else:
        # For bindings of mutating policies the original exchanges the two, by mistake.
        who, what = (user, verb) if policies == VALIDATING_POLICIES else (verb, user)
        text = f'user {who} does not have "{what}" permission on the object referenced by paramRef'
    return forbidden("spec.paramRef", text)


def _resource_of(request: ResourceRequest, kind: Mapping[str, Any]) -> tuple[str, str | None]:
    """Returns the group of a kind and its resource, None if the tenant does not serve it."""
    wanted = ParamKind(kind.get("apiVersion") or "", kind.get("kind") or "")
    served = param_resource(request.catalog, wanted)
    return wanted.api_version.rpartition("/")[0], served.resource.name if served is not None else None


async def _may(request: ResourceRequest, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
    attributes = Attributes(verb, "", resource, "", group, namespace, name)
    return (await request.backend.authorizer.decide(request.tenant, request.context.user, attributes)).allowed


def _go_user(user: User) -> str:
    """Returns the user as Go prints a pointer to user.DefaultInfo."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
