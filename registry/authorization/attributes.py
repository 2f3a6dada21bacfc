"""Attributes of a request, authorization decisions, and the text of a denial. authorizer.py makes the decisions.

Texts and order are kube-apiserver's: requests are authorized before routing, so that a 404 reveals nothing about what
exists. Follows apiserver pkg/endpoints/filters/authorization.go and pkg/endpoints/handlers/responsewriters/errors.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from registry.authentication.user import User
from registry.codec.go_text import go_quote


class Attributes(NamedTuple):
    """What is to be authorized: a `path` only if it is no resource; `of_resource` is for reviews that name none."""

    verb: str
    path: str
    resource: str = ""
    subresource: str = ""
    group: str = ""
    namespace: str = ""
    name: str = ""
    of_resource: bool = False

    @property
    def is_resource(self) -> bool:
        return self.of_resource or bool(self.resource)


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` says why a request is allowed, or else what is wrong with the bindings that might allow it."""

    allowed: bool
    reason: str = ""
    evaluation_error: str = ""


@dataclass(frozen=True, slots=True)
class SubjectRules:
    """The rights of a user in a namespace, in the form of a rules review."""

    resources: Sequence[Mapping[str, Sequence[str]]] = ()
    paths: Sequence[Mapping[str, Sequence[str]]] = ()
    evaluation_error: str = ""
    is_complete: bool = True


def refusal(user: User, attributes: Attributes, reason: str = "") -> str:
    """`User "u" cannot get resource "widgets" in API group "g" in the namespace "n"`, or `... path "/x"`.

    `reason` is the decision's, appended to the text.
    """
    name = go_quote(user.name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    ending = f": {reason}" if reason else ""
    if not attributes.is_resource:
        return f'User {name} cannot {attributes.verb} path "{attributes.path}"{ending}'
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    where = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return (
        f'User {name} cannot {attributes.verb} resource "{resource}" in API group "{attributes.group}" {where}{ending}'
    )
