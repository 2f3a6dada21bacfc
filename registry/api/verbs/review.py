"""Reviews: answers questions about access, and Queries (registry/api/query/answering.py). Nothing is stored.

Access is decided by registry/authorization/authorizer.py; this module reads the question from the review and writes the
answer into its status. Follows kubernetes pkg/registry/authorization/{subject,local,self}*/rest.go and
pkg/registry/authentication/selfsubjectreview/rest.go.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from registry.api.answers import DocumentAnswer
from registry.api.bodies import decode_object
from registry.api.errors import Qualified, bad_request, invalid
from registry.api.metadata import agree_on_namespace, wipe_system_fields
from registry.api.options import manager_of, write_options
from registry.api.ownership import own_create
from registry.api.query.answering import answer_query
from registry.api.request import Body, ResourceRequest
from registry.api.selectors import SelectorError, field_terms, parse_label_selector
from registry.api.served import Object
from registry.authentication.authenticator import INVALID
from registry.authentication.user import User
from registry.authorization.attributes import Attributes, Decision
from registry.flowcontrol.evaluation import evaluate

QUERY = "Query"
_LABEL_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
# Field selectors have no other operators, and take one value.
_FIELD_OPERATORS = frozenset({"In", "NotIn"})


async def review(request: ResourceRequest, body: Body) -> DocumentAnswer:
    """Returns 201 with the question and its answer."""
    options = write_options(request.query, "CreateOptions")
    obj = await evaluate(partial(decode_object, request, body, options))
    wipe_system_fields(obj)
    agree_on_namespace(request, obj)
    strategy, served = request.served.strategy, request.served
    obj.pop("status", None)
    manager = manager_of(options, request.context.user_agent)
    asked = await evaluate(lambda: own_create(served, strategy.finish(obj), manager, request.context.timestamp))
    errors = await evaluate(partial(strategy.validate, asked))
    if errors:
        # The original omits the kind of its reviews.
        kind = served.kind if served.kind.name == QUERY else Qualified("", served.kind.group)
        raise invalid(kind, "", errors)
    spec = asked.get("spec") or {}
    status = await _STATUS[served.kind.name](request, spec)
    if served.kind.name in ("SelfSubjectReview", QUERY):
        asked["metadata"] = {"creationTimestamp": request.context.timestamp}
    return DocumentAnswer({**asked, "status": status}, 201, served.table)


async def _of_subject(request: ResourceRequest, spec: Object) -> Object:
    extra = {key.lower(): tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
    return await _status(request, user, spec)


async def _of_self(request: ResourceRequest, spec: Object) -> Object:
    return await _status(request, request.context.user, spec)


async def _status(request: ResourceRequest, user: User, spec: Object) -> Object:
    decide = request.backend.policies.decide
    resource = spec.get("resourceAttributes")
    if resource is None:
        path = spec.get("nonResourceAttributes") or {}
        asked = Attributes(path.get("verb") or "", path.get("path") or "")
        return _decision_status(await decide(request.tenant, user, asked))
    return _with_parse_errors(_decision_status(await decide(request.tenant, user, _attributes(resource))), resource)


def _attributes(asked: Object) -> Attributes:
    return Attributes(
        verb=asked.get("verb") or "",
        path="",
        resource=asked.get("resource") or "",
        subresource=asked.get("subresource") or "",
        group=asked.get("group") or "",
        namespace=asked.get("namespace") or "",
        name=asked.get("name") or "",
        of_resource=True,
    )


def _decision_status(decision: Decision) -> Object:
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    if decision.evaluation_error:
        status["evaluationError"] = decision.evaluation_error
    return status


def _with_parse_errors(status: Object, asked: Object) -> Object:
    """Reports selectors that cannot be parsed, which are ignored (util/helpers.go, BuildEvaluationError).

    Rules do not use selectors, so nothing else is needed: a user who may list everything may list a part.
    """
    notes = [status["evaluationError"]] if "evaluationError" in status else []
    for name in ("fieldSelector", "labelSelector"):
        known, unknown = _understood(asked.get(name) or {}, of_labels=name == "labelSelector")
        if unknown:
            notes.append(f"spec.resourceAttributes.{name} {'partially ' if known else ''}ignored due to parse error")
    if notes:
        status["evaluationError"] = "; ".join(notes)
    return status


def _understood(selector: Object, *, of_labels: bool) -> tuple[int, int]:
    """Returns the numbers of valid and invalid requirements of a selector; a rawSelector counts as one."""
    if raw := selector.get("rawSelector"):
        try:
            parse_label_selector(raw) if of_labels else field_terms(raw)
        except SelectorError:
            return 0, 1
        return 1, 0
    requirements = selector.get("requirements") or []
    known = sum(
        1
        for r in requirements
        if r.get("operator") in (_LABEL_OPERATORS if of_labels else _FIELD_OPERATORS)
        and (of_labels or len(r.get("values") or ()) == 1)
    )
    return known, len(requirements) - known


async def _rules(request: ResourceRequest, spec: Object) -> Object:
    namespace = spec.get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    rules = await request.backend.policies.rules_of(request.tenant, request.context.user, namespace)
    status: Object = {
        "resourceRules": [dict(r) for r in rules.resources],
        "nonResourceRules": [dict(r) for r in rules.paths],
        "incomplete": rules.incomplete,
    }
    if rules.evaluation_error:
        status["evaluationError"] = rules.evaluation_error
    return status


async def _who(request: ResourceRequest, spec: Object) -> Object:
    return {"userInfo": _user_info(request.context.user)}


def _user_info(user: User) -> Object:
    info: dict[str, Any] = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {name: value for name, value in info.items() if value}


async def _token(request: ResourceRequest, spec: Object) -> Object:
    """Authenticates a token for this tenant; tokens of other tenants are invalid."""
    token, asked = spec.get("token") or "", tuple(spec.get("audiences") or ())
    if not token:
        raise bad_request("token is required for TokenReview in authentication")
    authentication, tokens = request.backend.authentication, request.backend.tokens
    tenant, own = request.tenant.name, tokens.issuer_of(request.tenant.name)
    wanted = asked or (own,)
    faults = [INVALID]
    found = await authentication.identify(token, wanted, faults)
    if found is None or found.user.tenant not in (None, tenant):
        faults = list(dict.fromkeys(faults if found is None else faults[:1]))
        return {"user": {}, "error": faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"}
    audiences = found.audiences
    if audiences is None:
        audiences = tuple(a for a in wanted if a == own)
        if not audiences:
            return {"user": {}, "error": INVALID}
    return {"authenticated": True, "user": _user_info(found.user), "audiences": list(audiences)}


_STATUS = {
    "SubjectAccessReview": _of_subject,
    "LocalSubjectAccessReview": _of_subject,
    "SelfSubjectAccessReview": _of_self,
    "SelfSubjectRulesReview": _rules,
    "SelfSubjectReview": _who,
    "TokenReview": _token,
    QUERY: answer_query,
}
