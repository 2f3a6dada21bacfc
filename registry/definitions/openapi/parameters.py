"""Request parameters in OpenAPI, grouped by the options types whose fields they are.

Follows apimachinery pkg/apis/meta/v1/types.go (ListOptions, GetOptions, DeleteOptions, CreateOptions, UpdateOptions,
PatchOptions) and kube-openapi pkg/builder3/openapi.go (findCommonParameters, sortParameters).
"""

from __future__ import annotations

from collections.abc import Sequence

from registry.definitions.openapi.types import Json


def _query(name: str, kind: str, description: str) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind, "uniqueItems": True}}


def _path(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "description": description,
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }


PRETTY = _query("pretty", "string", "Whether to indent the answer.")
NAMESPACE = _path("namespace", "The namespace of the objects.")

_RESOURCE_VERSION = _query("resourceVersion", "string", "The version that the answer must have, or be as new as.")
_DRY_RUN = _query("dryRun", "string", "All, to see what would happen without changing anything.")
_WATCH_ONLY = (
    _query("allowWatchBookmarks", "boolean", "Whether a watch may send bookmarks, which tell how far it has come."),
    _query("watch", "boolean", "Whether to go on with the changes."),
)
_SELECTION = (
    _query("continue", "string", "The token of a former part of the list, to get the next one."),
    _query("fieldSelector", "string", "Restricts the answer to objects with these fields."),
    _query("labelSelector", "string", "Restricts the answer to objects with these labels."),
    _query("limit", "integer", "The most items that are wanted at a time."),
    _RESOURCE_VERSION,
    _query("resourceVersionMatch", "string", "How resourceVersion is to be taken: Exact or NotOlderThan."),
    _query("sendInitialEvents", "boolean", "Whether a watch begins with the objects that are there."),
    _query("shardSelector", "string", "Restricts the answer to a part of the objects, where sharding is enabled."),
    _query("timeoutSeconds", "integer", "How long the request may take."),
)

GET = (_RESOURCE_VERSION,)
LIST = (*_WATCH_ONLY, *_SELECTION)
DELETE = (
    _DRY_RUN,
    _query("gracePeriodSeconds", "integer", "How long the deletion may take."),
    _query("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean", "Deletes an object that cannot be read."),
    _query("orphanDependents", "boolean", "An older word for a propagationPolicy of Orphan."),
    _query("propagationPolicy", "string", "What becomes of dependents: Orphan, Background or Foreground."),
)
DELETE_COLLECTION = (*_SELECTION, *DELETE)
WRITE = (
    _DRY_RUN,
    _query("fieldManager", "string", "The name under which ownership of the changed fields is noted."),
    _query("fieldValidation", "string", "What to do with unknown and repeated fields: Ignore, Warn or Strict."),
)
PATCH = (*WRITE, _query("force", "boolean", "Whether an apply takes over fields that others own."))


def name_of(kind: str) -> Json:
    return _path("name", f"name of the {kind}")


def hoist(operations: dict[str, Json]) -> Json:
    """The path item: parameters common to all operations are moved to the path, sorted by name.

    `operations` are by method, each with all its `parameters`.
    """
    of_each = [{_key(p): p for p in operation["parameters"]} for operation in operations.values()]
    common = [p for key, p in of_each[0].items() if all(key in others for others in of_each[1:])]
    shared = {_key(p) for p in common}
    item: Json = {}
    for method, operation in operations.items():
        own = by_name([p for p in operation["parameters"] if _key(p) not in shared])
        item[method] = {
            name: own if name == "parameters" else value
            for name, value in operation.items()
            if name != "parameters" or own
        }
    return {**item, "parameters": by_name(common)}


def by_name(parameters: Sequence[Json]) -> list[Json]:
    return sorted(parameters, key=_key)


def _key(parameter: Json) -> tuple[str, str]:
    return parameter["name"], parameter["in"]
