"""Reviews: answers questions about access, and Queries (registry/api/query/answering.py). Nothing is stored.

A review goes through the stages of a create (pipeline.py), so webhooks see it; its commit computes the answer. Access
is decided by registry/authorization/authorizer.py; this module reads the question from the review and writes the answer
into its status. Follows kubernetes pkg/registry/authorization/{subject,local,self}*/rest.go and
pkg/registry/authentication/selfsubjectreview/rest.go.
"""

from __future__ import annotations

from functools import partial

from registry.admission.configuration import webhooks_apply
from registry.api.answers import DocumentAnswer
from registry.api.errors import Qualified, bad_request, invalid
from registry.api.metadata import wipe_system_fields
from registry.api.ownership import own_create
from registry.api.query.answering import answer_query
from registry.api.request import Body, ResourceRequest
from registry.api.selectors.fields import field_terms
from registry.api.selectors.labels import parse_label_selector
from registry.api.selectors.requirements import SelectorError
from registry.api.served import Object
from registry.api.verbs.computed import ComputedOperation, compute
from registry.api.verbs.pipeline import Draft, Outcome, Start
from registry.authentication.authenticator import INVALID, bearer_token
from registry.authentication.user import User
from registry.authorization.attributes import Attributes, Decision
from registry.flowcontrol.evaluation import evaluate

QUERY = "Query"
_LABEL_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})
# Field selectors have no other operators, and take one value.
_FIELD_OPERATORS = frozenset({"In", "NotIn"})


async def review(request: ResourceRequest, body: Body) -> DocumentAnswer:
    """Returns 201 with the question and its answer."""
    return await compute(request, body, ReviewOperation)


class ReviewOperation(ComputedOperation):
    """A create that stores nothing: webhooks may change or refuse the question before it is answered."""

    async def load(self, request: ResourceRequest) -> Start:
        return Start(None, None)

    async def make(self, request: ResourceRequest, start: Start) -> Draft:
        resource = request.served.resource
        if webhooks_apply(resource.group, resource.name):  # a Query reads, so they do not see it
            # Nothing is committed that would notice a webhook that another process has registered.
            request.check_fresh(await request.backend.store.state(request.tenant))
        return await evaluate(partial(self._draft, request, start))

    def _draft(self, request: ResourceRequest, start: Start) -> Draft:
        served = request.served
        wipe_system_fields(self.obj)
        obj = own_create(served, served.strategy.finish(self.obj), self.manager, request.context.timestamp)
        return Draft(start, obj["metadata"].get("name") or "", None, obj)

    def validate(self, request: ResourceRequest, draft: Draft) -> None:
        served = request.served
        errors = served.strategy.validate(draft.new)
        if errors:
            # The original omits the kind of its reviews.
            kind = served.kind if served.kind.name == QUERY else Qualified("", served.kind.group)
            raise invalid(kind, "", errors)
        _require_answerable(request, draft.new)

    async def commit(self, request: ResourceRequest, draft: Draft) -> Outcome:
        review, kind = draft.new, request.served.kind.name
        status = await _STATUS[kind](request, review.get("spec") or {})
        if kind == "TokenReview" and "authenticated" not in status:  # what the client claimed of the user is repeated
            status = {**status, **(review.get("status") or {}), "error": status["error"]}
            status.pop("authenticated", None)
        if kind in ("SelfSubjectReview", QUERY):
            review = {**review, "metadata": {"creationTimestamp": request.context.timestamp}}
        if kind == "SelfSubjectRulesReview":  # a new object: what was asked is not repeated
            review = {**review, "metadata": {}, "spec": {}}
        return Outcome(obj={**review, "status": status})


def _require_answerable(request: ResourceRequest, review: Object) -> None:
    """Raises 400 for a question that cannot be answered, before validating webhooks see it."""
    spec = review.get("spec") or {}
    match request.served.kind.name:
        case "TokenReview" if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        case "SelfSubjectRulesReview" if not spec.get("namespace"):
            raise bad_request("no namespace on request")
        case "LocalSubjectAccessReview" if review["metadata"].get("namespace") != request.namespace:
            raise bad_request(f"spec.resourceAttributes.namespace must match namespace: {request.namespace}")


async def _of_subject(request: ResourceRequest, spec: Object) -> Object:
    extra = {key.lower(): tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    user = User(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)
    return await _status(request, user, spec)


async def _of_self(request: ResourceRequest, spec: Object) -> Object:
    return await _status(request, request.context.user, spec)


async def _status(request: ResourceRequest, user: User, spec: Object) -> Object:
    decide = request.backend.authorizer.decide
    resource = spec.get("resourceAttributes")
    if resource is None:
        path = spec.get("nonResourceAttributes") or {}
        attributes = Attributes(path.get("verb") or "", path.get("path") or "")
        return _decision_status(await decide(request.tenant, user, attributes))
    status = _decision_status(await decide(request.tenant, user, _attributes(resource)))
    return await evaluate(partial(_with_parse_errors, status, resource))


def _attributes(resource_attributes: Object) -> Attributes:
    return Attributes(
        verb=resource_attributes.get("verb") or "",
        path="",
        resource=resource_attributes.get("resource") or "",
        subresource=resource_attributes.get("subresource") or "",
        group=resource_attributes.get("group") or "",
        namespace=resource_attributes.get("namespace") or "",
        name=resource_attributes.get("name") or "",
        of_resource=True,
    )


def _decision_status(decision: Decision) -> Object:
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    if decision.evaluation_error:
        status["evaluationError"] = decision.evaluation_error
    return status


def _with_parse_errors(status: Object, selectors: Object) -> Object:
    """Reports selectors that cannot be parsed, which are ignored (util/helpers.go, BuildEvaluationError).

    Rules do not use selectors, so nothing else is needed: a user who may list everything may list a part.
    """
    notes = [status["evaluationError"]] if "evaluationError" in status else []
    for name in ("fieldSelector", "labelSelector"):
        known, unknown = _understood(selectors.get(name) or {}, of_labels=name == "labelSelector")
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
    rules = await request.backend.authorizer.rules_of(request.tenant, request.context.user, spec["namespace"])
    status: Object = {
        "resourceRules": [dict(r) for r in rules.resources],
        "nonResourceRules": [dict(r) for r in rules.paths],
        "incomplete": not rules.is_complete,  # roles that are missing are an evaluationError
    }
    if rules.evaluation_error:
        status["evaluationError"] = rules.evaluation_error
    return status


async def _who(request: ResourceRequest, spec: Object) -> Object:
    return {"userInfo": request.context.user.info()}


async def _token(request: ResourceRequest, spec: Object) -> Object:
    """Authenticates a token for this tenant; tokens of other tenants are invalid."""
    # kube-apiserver puts the token into a header; Go's base64, of which a JWT consists, ignores line breaks.
    reviewed: str = spec["token"]
    if reviewed.count(".") == 2:
        reviewed = reviewed.replace("\r", "").replace("\n", "")
    token, requested = bearer_token(f"Bearer {reviewed}", []), tuple(spec.get("audiences") or ())
    if not token:  # for kube-apiserver that is an anonymous user
        return {"user": {}, "error": INVALID}
    authentication, tokens = request.backend.authentication, request.backend.tokens
    tenant, own = request.tenant.name, tokens.issuer_of(request.tenant.name)
    wanted = requested or (own,)
    faults = [INVALID]
    identity = await authentication.identify(token, wanted, faults)
    if identity is None or identity.user.tenant not in (None, tenant):
        faults = list(dict.fromkeys(faults if identity is None else faults[:1]))
        return {"user": {}, "error": faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"}
    audiences = identity.audiences
    if audiences is None:
        audiences = tuple(a for a in wanted if a == own)
        if not audiences:
            return {"user": {}, "error": INVALID}
    return {"authenticated": True, "user": identity.user.info(), "audiences": list(audiences)}


_STATUS = {
    "SubjectAccessReview": _of_subject,
    "LocalSubjectAccessReview": _of_subject,
    "SelfSubjectAccessReview": _of_self,
    "SelfSubjectRulesReview": _rules,
    "SelfSubjectReview": _who,
    "TokenReview": _token,
    QUERY: answer_query,
}
