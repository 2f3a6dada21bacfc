"""What a hostile tenant does to a server, for benchmarks/hostile.py: one function an attack.

Each is called with an Attacker. It makes what it needs, calls `parallel`, and goes on until it is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.attacks import aggregated, background, conversions, documents, found, policies, queries, storms
from benchmarks.attacks.attacker import Attacker

ATTACKS: dict[str, Callable[[Attacker], Coroutine[Any, Any, None]]] = {
    "trailers": found.trailers,
    "chunks": found.chunks,
    "columns": found.columns,
    "re2": found.re2,
    "findall": found.find_all,
    "policies": found.policies,
    "owners": found.owners,
    "anyof": found.any_of,
    "jsonpatch": found.json_patch,
    "containers": found.containers,
    "pages": found.pages,
    "yaml": found.yaml,
    "uploads": found.uploads,
    "accept": found.accept,
    "metrics": found.metrics,
    "webhooks": found.webhooks,
    "hangingwebhooks": found.hanging_webhooks,
    "filters": queries.filters,
    "longfilters": queries.long_filters,
    "orders": queries.orders,
    "questions": queries.questions,
    "statistics": queries.statistics,
    "fields": queries.fields,
    "filteredwatches": queries.filtered_watches,
    "cbor": queries.cbor,
    "yamlbodies": queries.yaml_bodies,
    "protobuf": queries.protobuf,
    "manywebhooks": storms.many_webhooks,
    "bindings": storms.bindings,
    "watches": storms.watches,
    "handshakes": storms.handshakes,
    "resets": storms.resets,
    "leavers": storms.leavers,
    "timeouts": storms.timeouts,
    "tokens": storms.tokens,
    "reviews": storms.reviews,
    "discovery": storms.discovery,
    "definitions": storms.definitions,
    "applies": storms.applies,
    "namespaces": storms.namespaces,
    "collections": background.collections,
    "migrations": background.migrations,
    "indexes": background.indexes,
    "dependents": background.dependents,
    "lists": storms.lists,
    "crowds": storms.crowds,
    "strangers": storms.strangers,
    "records": storms.records,
    "scrapes": documents.scrapes,
    "health": documents.health,
    "console": documents.console,
    "openapi": documents.openapi,
    "pieces": aggregated.pieces,
    "floods": aggregated.floods,
    "reconnects": aggregated.reconnects,
    "bundles": aggregated.bundles,
    "hangingconversions": conversions.hanging_conversions,
    "params": policies.params,
    "mutations": policies.mutations,
    "manypolicies": policies.namespaced_policies,
    # Last, since each write of a ConfigMap then takes hundreds.
    "quotas": storms.quotas,
}
