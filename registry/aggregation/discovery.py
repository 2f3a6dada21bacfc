"""Merges the discovery of other servers into that of local resources.

The resources of a server are those of its last check (availability.py), so that no document waits for a server; for one
that is unavailable the last known resources are listed as `Stale`. Pure.

Follows kube-aggregator pkg/apiserver/{handler_apis,handler_discovery}.go and apiserver
pkg/endpoints/installer.go (ConvertGroupVersionIntoToDiscovery).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from registry.aggregation.model import Aggregated, APIServer, version_order

Json = dict[str, Any]
# The priorities of a local group version.
LocalPriority = Callable[[str, str], tuple[int, int]]

RESOURCES_LIMIT: Final = 1000
# Characters of all resources of a server: a thousand have about a tenth of it. Each value counts for a few more.
_CHARACTERS_LIMIT: Final = 512 * 1024
_OVERHEAD: Final = 8
_TEXTS: Final = ("name", "singularName", "kind", "group", "version")
_LISTS: Final = ("verbs", "shortNames", "categories")


class Resources(NamedTuple):
    """The resources of a version as in aggregated discovery (`{"resource": "metrics", "scope": "Namespaced", ...}`).

    `is_current` is False if the server has not responded recently.

    `serial` identifies the entries within this process: different entries have different serials.
    """

    entries: Sequence[Json]
    is_current: bool
    serial: int = 0


NONE_KNOWN: Final = Resources((), False)


def resources_of(document: Any) -> list[Json] | None:
    """The resources of an APIResourceList; None for anything else."""
    entries = document.get("resources") if isinstance(document, dict) else None
    if not isinstance(entries, list) or document.get("kind") not in ("APIResourceList", None):
        return None
    return _aggregated_resources([entry for entry in entries[:RESOURCES_LIMIT] if _is_resource(entry)])


def published_resources(document: Any, group: str, version: str) -> list[Json] | None:
    """The resources of one version in an APIGroupDiscoveryList, [] if it is not listed; None for anything else."""
    if not isinstance(document, dict) or document.get("kind") != "APIGroupDiscoveryList":
        return None
    for item in _objects(document.get("items")):
        if _object(item.get("metadata")).get("name", "") == group:
            for entry in _objects(item.get("versions")):
                if entry.get("version") == version:
                    listed = _objects(entry.get("resources"))[:RESOURCES_LIMIT]
                    published = [_published(resource, "resource") for resource in listed]
                    return [one for one in published if one["resource"] and "/" not in one["resource"]]
    return []


def _published(entry: Json, name: str) -> Json:
    """A resource, or a subresource, with the fields that discovery has; `name` is that of its name."""
    published: Json = {name: _text(entry.get(name)), "responseKind": _kind(_object(entry.get("responseKind")))}
    if name == "resource":
        published |= {field: _text(entry.get(field)) for field in ("scope", "singularResource")}
    published |= {field: values for field in _LISTS if (values := _texts(entry.get(field))) or field == "verbs"}
    if below := [_published(one, "subresource") for one in _objects(entry.get("subresources"))]:
        published["subresources"] = below
    return published


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _is_resource(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and bool(entry.get("name"))
        and all(isinstance(entry.get(name, ""), str) for name in _TEXTS)
        and all(_is_list_of_texts(entry.get(name) or []) for name in _LISTS)
    )


def _is_list_of_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


class Listed(NamedTuple):
    """Resources that a server lists, and their size."""

    entries: Sequence[Json]
    characters: int


def fitting(resources: Sequence[Json]) -> Listed:
    """Returns the first resources, as far as a process keeps them."""
    size, kept = 0, list[Json]()
    for resource in resources:
        more = _characters_of(resource)
        if size + more > _CHARACTERS_LIMIT:
            break
        size += more
        kept.append(resource)
    return Listed(kept, size)


def _characters_of(value: Any) -> int:
    """What the texts in a value have in all, and a few for each value."""
    if isinstance(value, str):
        return len(value) + _OVERHEAD
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return _OVERHEAD + sum(map(_characters_of, values))


# -- the legacy form


def merge_group_list(document: Json, aggregated: Aggregated, priority: LocalPriority) -> Json:
    """Adds the groups of other servers to /apis."""
    groups = {group["name"]: group for group in document["groups"]}
    order = list(groups)
    ranks = _Ranks(aggregated, priority)
    for name in sorted({server.group for server in aggregated.servers.values() if server.group}):
        groups[name] = merge_group(groups.get(name), aggregated, name, priority)
        if name not in order:
            ranks.insert(order, name, lambda group: groups[group]["versions"])
    return {**document, "groups": [groups[name] for name in order]}


def merge_group(local: Json | None, aggregated: Aggregated, name: str, priority: LocalPriority) -> Json:
    """A group including the versions of other servers; `local` is the locally served group, if any."""
    versions = _versions([v["version"] for v in local["versions"]] if local else [], aggregated, name, priority)
    entries = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {**(local or {}), "name": name, "versions": entries, "preferredVersion": entries[0]}


# -- the aggregated form


def merge_aggregated(
    document: Json,
    aggregated: Aggregated,
    resources: Mapping[tuple[str, str], Resources],
    priority: LocalPriority,
    *,
    core: bool,
) -> Json:
    """Adds the groups of other servers to an APIGroupDiscoveryList: that of /api with `core`, else of /apis."""
    items = {item["metadata"].get("name", ""): item for item in document["items"]}
    order = list(items)
    ranks = _Ranks(aggregated, priority)
    for name in sorted({server.group for server in aggregated.servers.values() if bool(server.group) != core}):
        local = {v["version"]: v for v in items.get(name, {}).get("versions", ())}
        merged = []
        for version in _versions(list(local), aggregated, name, priority):
            server = aggregated.servers.get((name, version))
            merged.append(local[version] if server is None else _version(server, resources))
        items[name] = {"metadata": {"name": name} if name else {}, "versions": merged}
        if name not in order:
            ranks.insert(order, name, lambda group: items[group]["versions"])
    return {**document, "items": [items[name] for name in order]}


def _version(server: APIServer, resources: Mapping[tuple[str, str], Resources]) -> Json:
    published = resources.get((server.group, server.version), NONE_KNOWN)
    entry: Json = {"version": server.version}
    if published.entries:
        entry["resources"] = list(published.entries)
    return {**entry, "freshness": "Current" if published.is_current else "Stale"}


def _aggregated_resources(entries: Sequence[Json]) -> list[Json]:
    """Nests subresources under their resources; those without a resource are omitted."""
    parents: dict[str, Json] = {}
    for entry in entries:
        name, slash, _ = entry["name"].partition("/")
        if not slash:
            parents[name] = _aggregated_resource(entry)
    for entry in entries:
        name, slash, subresource = entry["name"].partition("/")
        if slash and name in parents:
            below = {"subresource": subresource, "responseKind": _kind(entry), "verbs": entry.get("verbs") or []}
            parents[name].setdefault("subresources", []).append(below)
    return list(parents.values())


def _aggregated_resource(entry: Json) -> Json:
    resource: Json = {
        "resource": entry["name"],
        "responseKind": _kind(entry),
        "scope": "Namespaced" if entry.get("namespaced") else "Cluster",
        "singularResource": entry.get("singularName") or "",
        "verbs": entry.get("verbs") or [],
    }
    return resource | {name: entry[name] for name in ("shortNames", "categories") if entry.get(name)}


def _kind(entry: Json) -> Json:
    return {field: _text(entry.get(field)) for field in ("group", "version", "kind")}


# -- order


def _versions(local: list[str], aggregated: Aggregated, group: str, priority: LocalPriority) -> list[str]:
    """All versions of a group, the preferred one first."""
    orders = {version: version_order(priority(group, version)[1], version) for version in local}
    for server in aggregated.servers.values():
        if server.group == group:
            orders[server.version] = server.order
    return sorted(orders, key=lambda version: orders[version])


class _Ranks:
    """The order of groups: by priority, the highest first, then by name. That of each group is determined once."""

    def __init__(self, aggregated: Aggregated, priority: LocalPriority) -> None:
        self._aggregated = aggregated
        self._priority = priority
        self._of_servers: dict[str, int] = {}
        for server in aggregated.servers.values():
            others = self._of_servers.get(server.group, server.group_priority)
            self._of_servers[server.group] = max(others, server.group_priority)
        self._known: dict[str, tuple[int, str]] = {}

    def insert(self, order: list[str], name: str, versions: Callable[[str], Sequence[Json]]) -> None:
        """Inserts a group of other servers before the first one that comes later. `versions` are those of a group that
        is in `order`."""
        mine = (-self._of_servers[name], name)
        place = next((i for i, other in enumerate(order) if self._rank(other, versions) > mine), len(order))
        order.insert(place, name)

    def _rank(self, group: str, versions: Callable[[str], Sequence[Json]]) -> tuple[int, str]:
        known = self._known.get(group)
        if known is None:
            names = [version["version"] for version in versions(group)]
            priorities = [self._priority(group, v)[0] for v in names if (group, v) not in self._aggregated.servers]
            if group in self._of_servers:
                priorities.append(self._of_servers[group])
            known = self._known[group] = (-max(priorities), group)
        return known
