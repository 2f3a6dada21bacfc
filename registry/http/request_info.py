"""A request's method, path and query, parsed once: the verb, the resource, the tenant.

    request_info("GET", "/clusters/acme/apis/stable.example.com/v1/namespaces/default/crontabs/a/status", b"pretty=1")
    RequestInfo(verb="get", query={"pretty": ["1"]}, tenant="acme", group="stable.example.com", version="v1",
                resource="crontabs", namespace="default", name="a", subresource="status", ...)

Nothing is looked up here: the tenant's catalog decides whether group, version and resource exist.

Follows apiserver pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from typing import NamedTuple

from registry.api.list_options import name_in_list_options
from registry.api.options import Query, is_true
from registry.authorization.attributes import Attributes
from registry.builtin.tenancy import GROUP, PLURAL
from registry.codec.go_url import unescape_valid

CLUSTERS = "clusters"
# The old paths of watches and proxies, /api/v1/watch/..., mean these verbs whatever the method is. Nothing is proxied.
_VERBS_OF_PATHS = ("watch", "proxy")
# Subresources of a namespace itself; any other segment after its name is a resource in it. The last three are those of
# registry/api/verbs/history/.
_NAMESPACE_SUBRESOURCES = ("status", "finalize", "history", "restore", "undelete")
# Subresources of other servers, which last as long as both sides like.
_LONG_RUNNING = ("attach", "exec", "log", "portforward", "proxy")


class UnknownResource(Exception):
    """The path ends with a verb, /api/v1/watch: neither resource nor namespace can be determined."""


class RequestInfo(NamedTuple):
    """`verb` is the API verb, "" for a method that resources do not have, and the method in lower case for a path that
    is of no resource. `verb_in_path`: it stands in the path, as in /api/v1/watch/configmaps.

    `path` is without /clusters/<tenant>; `tenant` is empty for a bare path. `is_api` is true for paths below /api and
    /apis. `has_namespace` is true for a resource below a namespace, even if the name of the namespace is empty.
    """

    verb: str
    path: str
    query: Query
    tenant: str = ""
    is_api: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    has_namespace: bool = False
    verb_in_path: bool = False

    @property
    def document_path(self) -> str:
        """The path without trailing slashes."""
        return self.path.rstrip("/") or "/"

    @property
    def is_long_running(self) -> bool:
        return self.verb == "watch" or self.subresource in _LONG_RUNNING

    @property
    def is_resource(self) -> bool:
        """Whether the path is one of a resource, even if its name is empty: /api/v1//scale."""
        return bool(self.resource or self.name or self.subresource or self.has_namespace or self.verb_in_path)

    def attributes(self) -> Attributes:
        """Returns the attributes for authorization.

        A namespace object is authorized inside itself, unless the path has another namespace, and a list by
        `metadata.name` as of that object, unless the path has the verb or the options cannot be decoded.
        """
        name = self.name
        if not name and self.verb in ("list", "watch") and not self.verb_in_path:
            name = name_in_list_options(self.query)
        is_namespace = self.resource == "namespaces" and not self.group
        return Attributes(
            self.verb,
            self.path,
            self.resource,
            self.subresource.partition("/")[0],
            self.group,
            self.namespace or (self.name if is_namespace else ""),
            name,
            of_resource=self.is_resource,
        )


def request_info(method: str, path: str, query_string: bytes = b"") -> RequestInfo:
    """Parses a request. `path` is decoded; its trailing slashes are ignored. Raises UnknownResource."""
    query = parse_query(query_string)
    parts = path.strip("/").split("/")
    tenant = ""
    if parts[0] == CLUSTERS and len(parts) > 1:
        # No tenant can be called "/": /clusters// is not the bare path.
        tenant = parts[1] or "/"
        # Trailing slashes stay, as in a bare path: some paths have none, and servers of APIServices tell them apart.
        path = "/" + "".join(path.lstrip("/").split("/", 2)[2:])
        parts = path.strip("/").split("/")
    if parts[0] == "apis":
        group, rest = (parts[1] if len(parts) > 1 else ""), parts[2:]
    elif parts[0] == "api":
        group, rest = "", parts[1:]
    else:
        return RequestInfo(method.lower(), path, query, tenant)
    version, rest = (rest[0] if rest else ""), rest[1:]
    if len(rest) == 1 and rest[0] in _VERBS_OF_PATHS:
        raise UnknownResource
    special = rest[0] if len(rest) > 1 and rest[0] in _VERBS_OF_PATHS else ""
    if special:
        rest = rest[1:]
    if not rest:
        return RequestInfo(method.lower(), path, query, tenant, True, group, version)
    namespace, has_namespace, rest = _namespace(rest, group)
    resource, name = rest[0], (rest[1] if len(rest) > 1 else "")
    subresource = "" if special == "proxy" else "/".join(rest[2:])
    verb = special or _verb(method, name, watch=not name and is_true(query, "watch"))
    if query and resource and not subresource:
        subresource = _subresource_of_query(verb, group, resource, query)
    place = (group, version, resource, namespace, name, subresource, has_namespace)
    return RequestInfo(verb, path, query, tenant, True, *place, bool(special))


def _namespace(rest: list[str], group: str) -> tuple[str, bool, list[str]]:
    """Returns the namespace, whether the path has one, and the path from the resource on: `configmaps/a`."""
    if rest[0] != "namespaces" or len(rest) < 2:
        return "", False, rest
    if len(rest) > 2 and not (rest[2] in _NAMESPACE_SUBRESOURCES and group == ""):
        return rest[1], True, rest[2:]
    return (rest[1], True, rest) if group else ("", False, rest)


def _verb(method: str, name: str, *, watch: bool) -> str:
    match method:
        case "GET" | "HEAD":
            return "watch" if watch else "get" if name else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "PATCH":
            return "patch"
        case "DELETE":
            return "delete" if name else "deletecollection"
        case _:
            return ""


def _subresource_of_query(verb: str, group: str, resource: str, query: Query) -> str:
    """Returns the subresource that a query about history stands for (registry/api/verbs/history/), else "".

    `widgets?deleted=true` is widgets/deleted, `widgets/a?atResourceVersion=7` is widgets/a/history: each needs a
    permission of its own. Kubernetes has neither query. `tenants?usage=true` is alike (registry/api/verbs/usage.py).
    """
    if verb == "list" and "deleted" in query and query["deleted"][0].lower() not in ("0", "false"):
        return "deleted"
    if verb == "list" and "usage" in query and (group, resource) == (GROUP, PLURAL):
        return "usage"
    return "history" if verb == "get" and "atResourceVersion" in query else ""


def parse_query(raw: bytes) -> Query:
    """`b"a=1&a=2&b"` is {"a": ["1", "2"], "b": [""]}; pairs with a `;` or an invalid escape are dropped."""
    if not raw:
        return {}
    query: dict[str, list[str]] = {}
    for pair in raw.split(b"&"):
        if pair and b";" not in pair:
            name, _, value = pair.replace(b"+", b" ").partition(b"=")
            try:
                text = unescape_valid(value)
                query.setdefault(unescape_valid(name), []).append(text)
            except ValueError:
                continue
    return query
