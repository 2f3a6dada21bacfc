"""The CEL variable `authorizer`: authorization checks, built by a chain of calls and evaluated by `check`.

    authorizer.group('').resource('pods').namespace('a').check('get').allowed()

A decision may need the database, but evaluation cannot wait: a question without a known answer raises Undecided; the
caller obtains the answer (`Decisions.answer`) and evaluates again.

Follows apiserver pkg/cel/library/authz.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from registry.cel.common.values import EvalError, Opaque, TypeValue, Value, no_such_overload
from registry.cel.ext.table import member, mismatch
from registry.schema.names import name_is_dns_label, name_is_dns_subdomain

# The cost of a check (library/cost.go): three checks in one expression exceed its limit.
CHECK_COST: Final = 350_000


class AuthorizerQuestion(NamedTuple):
    """May this user do this? `user` is the JSON of a UserInfo, or the namespace and name of a service account."""

    account: tuple[str, str] | None
    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


class AuthorizerAnswer(NamedTuple):
    allowed: bool
    reason: str = ""
    error: str = ""


class Undecided(Exception):
    """An expression needs an unanswered question. Not an EvalError, since no operator may absorb it."""

    def __init__(self, question: AuthorizerQuestion) -> None:
        super().__init__(str(question))
        self.question = question


class Decisions:
    """The answers obtained for one request; equal questions are only asked once."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[AuthorizerQuestion, AuthorizerAnswer] = {}

    def of(self, question: AuthorizerQuestion) -> AuthorizerAnswer:
        decision = self.known.get(question)
        if decision is None:
            raise Undecided(question)
        return decision


class _Receiver(Opaque):
    """A value that has only member functions."""

    __slots__ = ()
    has_text = False

    def equals(self, other: Value) -> bool:
        if not isinstance(other, _Receiver):
            raise no_such_overload()
        return self is other


class CelAuthorizer(_Receiver):
    __slots__ = ("account", "decisions")
    type = TypeValue("kubernetes.authorization.Authorizer")

    def __init__(self, decisions: Decisions, account: tuple[str, str] | None = None) -> None:
        self.decisions = decisions
        self.account = account


class GroupCheck(_Receiver):
    __slots__ = ("authorizer", "group")
    type = TypeValue("kubernetes.authorization.GroupCheck")

    def __init__(self, authorizer: CelAuthorizer, group: str) -> None:
        self.authorizer = authorizer
        self.group = group


class Check(_Receiver):
    """A question without its verb."""

    __slots__ = ("decisions", "question")

    def __init__(self, decisions: Decisions, question: AuthorizerQuestion) -> None:
        self.decisions = decisions
        self.question = question


class PathCheck(Check):
    __slots__ = ()
    type = TypeValue("kubernetes.authorization.PathCheck")


class ResourceCheck(Check):
    __slots__ = ()
    type = TypeValue("kubernetes.authorization.ResourceCheck")


class AuthorizerDecision(_Receiver):
    __slots__ = ("answer",)
    type = TypeValue("kubernetes.authorization.Decision")

    def __init__(self, answer: AuthorizerAnswer) -> None:
        self.answer = answer


def request_check(decisions: Decisions, request: Mapping[str, Any]) -> ResourceCheck:
    """`authorizer.requestResource`: the check of the request's own resource."""
    resource = request["requestResource"]
    rest = [request.get(name, "") for name in ("requestSubResource", "namespace", "name")]
    return ResourceCheck(decisions, AuthorizerQuestion(None, "", "", resource["group"], resource["resource"], *rest))


@member("path", 2, of=(CelAuthorizer, str))
def path(target: CelAuthorizer, text: str) -> PathCheck:
    if not text.strip():
        raise EvalError("path must not be empty")
    return PathCheck(target.decisions, AuthorizerQuestion(target.account, "", text))


@member("group", 2, of=(CelAuthorizer, str))
def group(target: CelAuthorizer, text: str) -> GroupCheck:
    return GroupCheck(target, text)


@member("serviceAccount", 3, of=(CelAuthorizer, str, str))
def service_account(target: CelAuthorizer, namespace: str, name: str) -> CelAuthorizer:
    if name_is_dns_subdomain(name):
        raise EvalError("Invalid service account name")
    if name_is_dns_label(namespace):
        raise EvalError("Invalid service account namespace")
    return CelAuthorizer(target.decisions, (namespace, name))


@member("resource", 2, of=(GroupCheck, str))
def resource(target: GroupCheck, text: str) -> ResourceCheck:
    if not text.strip():
        raise EvalError("resource must not be empty")
    authorizer = target.authorizer
    return ResourceCheck(authorizer.decisions, AuthorizerQuestion(authorizer.account, "", "", target.group, text))


def _part(function: str, field: str) -> None:
    @member(function, 2)
    def narrow(target: Value, text: Value) -> ResourceCheck:
        if type(target) is not ResourceCheck or type(text) is not str:
            raise mismatch(function, target, text)
        change: dict[str, Any] = {field: text}
        return ResourceCheck(target.decisions, target.question._replace(**change))


for _function, _field in (
    ("subresource", "subresource"),
    ("namespace", "namespace"),
    ("name", "name"),
    ("fieldSelector", "field_selector"),
    ("labelSelector", "label_selector"),
):
    _part(_function, _field)


@member("check", 2, cost=lambda arguments, result: CHECK_COST)
def check(target: Value, verb: Value) -> AuthorizerDecision:
    if not isinstance(target, Check) or type(verb) is not str:
        raise mismatch("check", target, verb)
    return AuthorizerDecision(target.decisions.of(target.question._replace(verb=verb)))


def _register(function: str, tell: Any) -> None:
    @member(function, 1)
    def read(target: Value) -> Value:
        if type(target) is not AuthorizerDecision:
            raise mismatch(function, target)
        return tell(target.answer)


_register("allowed", lambda answer: answer.allowed)
_register("reason", lambda answer: answer.reason)
_register("errored", lambda answer: bool(answer.error))
_register("error", lambda answer: answer.error)
