"""A URL becomes a target: which tenant, and which resource, document or endpoint.

    parse("/clusters/acme/apis/stable.example.com/v1/namespaces/default/crontabs/a/status")
    Target(tenant="acme", group="stable.example.com", version="v1", resource="crontabs", namespace="default", name="a",
           subresource="status")

Nothing is looked up here: whether group, version and resource exist is for the tenant's catalog to say.

Follows apiserver pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from registry.api.options import Query
from registry.builtin.tenancy import GROUP, PLURAL

CLUSTERS = "clusters"
# What stands behind a namespace's name and is its own; anything else is a resource in it. The last three are
# registry/api/verbs/history.py's.
_NAMESPACE_SUBRESOURCES = ("status", "finalize", "history", "restore", "undelete")


@dataclass(frozen=True, slots=True)
class Target:
    """`tenant` is empty for a bare path. A path that is no resource has no `resource`, and stands in `path`.

    `is_api` tells a path below /api or /apis; `watch` the old paths that begin with /watch.
    """

    path: str
    tenant: str = ""
    is_api: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False
    has_namespace: bool = False


def parse(path: str) -> Target:
    """The target of a decoded path. Trailing slashes do not count."""
    parts = path.strip("/").split("/")
    tenant = ""
    if parts[0] == CLUSTERS and len(parts) > 1:
        # No tenant can be called "/": /clusters// is not the bare path.
        tenant = parts[1] or "/"
        parts = parts[2:] or [""]
        path = "/" + "/".join(parts)
    if parts[0] == "apis":
        group, rest = (parts[1] if len(parts) > 1 else ""), parts[2:]
    elif parts[0] == "api":
        group, rest = "", parts[1:]
    else:
        return Target(path, tenant)
    if not rest:
        return Target(path, tenant, is_api=True, group=group)
    version, rest = rest[0], rest[1:]
    watch = len(rest) > 1 and rest[0] == "watch"
    if watch:
        rest = rest[1:]
    if not rest:
        return Target(path, tenant, is_api=True, group=group, version=version)
    namespace, has_namespace = "", False
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and not (rest[2] in _NAMESPACE_SUBRESOURCES and group == ""):
            has_namespace = True
            rest = rest[2:]
        elif group:
            has_namespace = True
    name = rest[1] if len(rest) > 1 else ""
    return Target(
        path,
        tenant,
        True,
        group,
        version,
        rest[0],
        namespace if has_namespace else "",
        name,
        "/".join(rest[2:]),
        watch,
        has_namespace,
    )


def with_past(target: Target, verb: str, query: Query) -> Target:
    """The target with the subresource that queries about the past stand for (registry/api/verbs/history.py).

    `widgets?deleted=true` is widgets/deleted, `widgets/a?atResourceVersion=7` is widgets/a/history: each has a right of
    its own. Kubernetes knows neither query. So it is with `tenants?usage=true` (registry/api/verbs/usage.py).
    """
    if target.subresource:
        return target
    if verb == "list" and "deleted" in query and query["deleted"][0].lower() not in ("0", "false"):
        return replace(target, subresource="deleted")
    if verb == "list" and "usage" in query and (target.group, target.resource) == (GROUP, PLURAL):
        return replace(target, subresource="usage")
    if verb == "get" and "atResourceVersion" in query:
        return replace(target, subresource="history")
    return target
