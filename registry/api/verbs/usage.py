"""Usage and limits of tenants, as a subresource of Tenant that is not in discovery:

    GET  .../tenants/a/usage        one (right: get tenants/usage)
    GET  .../tenants?usage=true     all, in the order of their names, or by fieldSelector (right: list tenants/usage)

The figures are those that quotas are checked against: counted in the commits themselves. `activity` sums up
all processes: the one that answers as of now, the others as of a few seconds ago. Documented in docs/tenants.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from registry.api.answers import DocumentAnswer
from registry.api.errors import bad_request, method_not_supported, not_found
from registry.api.list_options import list_options
from registry.api.request import ResourceRequest
from registry.api.served import Served
from registry.api.verbs.selection import parse_selection, selectors_size
from registry.builtin.tenancy import GROUP, PLURAL, SYSTEM
from registry.flowcontrol.activity import Figures
from registry.flowcontrol.evaluation import evaluate
from registry.store.tenants import Usage
from registry.store.types import ObjectKey

SUBRESOURCE: Final = "usage"
API_VERSION: Final = f"{GROUP}/v1"
MAX_LIMIT: Final = 500
# Query parameters that its list reads.
SELECTED_BY: Final = ("limit", "continue", "fieldSelector", "labelSelector")


def is_of(served: Served, subresource: str) -> bool:
    return subresource == SUBRESOURCE and served.resource_name == f"{PLURAL}.{GROUP}"


def check(served: Served, verb: str) -> None:
    """Raises 405 for verbs other than get and list."""
    if verb not in ("get", "list"):
        raise method_not_supported(served.resource, verb)


async def serve(request: ResourceRequest, verb: str) -> DocumentAnswer:
    if request.tenant.name != SYSTEM:  # Elsewhere it is a custom resource of the same name.
        raise not_found(request.served.resource, request.name)
    store, activity = request.backend.store, await _activity(request)
    if verb == "get":
        by_tenant = await store.tenancy.usage([request.name])
        if request.name not in by_tenant:
            raise not_found(request.served.resource, request.name)
        return DocumentAnswer(
            {
                "apiVersion": API_VERSION,
                "kind": "TenantUsage",
                **_usage_entry(request.name, by_tenant[request.name], activity),
            }
        )
    page, more = await _page(request)
    metadata = {"continue": list(page)[-1]} if more else {}
    return DocumentAnswer(
        {
            "apiVersion": API_VERSION,
            "kind": "TenantUsageList",
            "metadata": metadata,
            "items": [_usage_entry(name, usage, activity) for name, usage in page.items()],
        }
    )


async def _page(request: ResourceRequest) -> tuple[dict[str, Usage], bool]:
    """Returns the next tenants that the field selector selects, and whether there may be more."""
    options = list_options({k: v for k, v in request.query.items() if k in SELECTED_BY})
    if options.label_selector:
        raise bad_request("labelSelector: usage cannot be selected by labels")
    parse = partial(parse_selection, request, options, by_identity=True)
    fields = (await evaluate(parse, selectors_size(options), repeatable=True)).fields
    limit = min(options.limit or MAX_LIMIT, MAX_LIMIT)
    store, accepts, after = request.backend.store, fields.accepts, options.continue_
    if fields.key is not None:
        by_tenant = await store.tenancy.usage([fields.key] if accepts is None or accepts(fields.key) else [])
        return by_tenant, False
    selected: dict[str, Usage] = {}
    rows = limit if accepts is None else MAX_LIMIT
    while True:
        page = await store.tenancy.usage_after(after, rows)
        for name, usage in page.items():
            if accepts is None or accepts(ObjectKey(name)):
                selected[name] = usage
                if len(selected) == limit:
                    return selected, True
        if len(page) < rows:
            return selected, False
        after = list(page)[-1]


async def _activity(request: ResourceRequest) -> Callable[[str], Figures]:
    """Returns a function from a tenant's name to its figures in all processes."""
    own, others = request.backend.activity, await request.backend.store.activity().of_others()
    return lambda name: own.of(name).plus(others.get(name, Figures()))


def _usage_entry(name: str, usage: Usage, activity: Callable[[str], Figures]) -> dict[str, Any]:
    """{'name': 'acme', 'used': {'objects': 12, ...}, 'limits': {'objects': 100}, 'activity': {'watches': 3, ...}}"""
    figures, busy = usage._asdict(), activity(name)
    limits = {
        key.removeprefix("max_"): value
        for key, value in figures.items()
        if key.startswith("max_") and value is not None
    }
    return {
        "name": name,
        "used": {key: value for key, value in figures.items() if not key.startswith("max_")},
        "limits": limits,
        "activity": {"requestsPerMinute": busy.requests, "writesPerMinute": busy.writes, "watches": busy.watches},
    }
