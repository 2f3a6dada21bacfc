"""The annotations of a definition on its reports, since a schema must not have extensions of ours.

    reporting.registry/views: "off"                     no views, no documents: as for secrets
    reporting.registry/sensitive: .spec.token, .spec.users[].password
    reporting.registry/indexes: .spec.phase, .status.count    in addition to the selectable fields
    reporting.registry/condition: "true"                adds the condition `Reported` to the definition's status

A field with `format: password` is also sensitive. A dot in the name of a property is written `\\.`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from registry.store.reporting.model import Path

PREFIX: Final = "reporting.registry/"
VIEWS: Final = PREFIX + "views"
SENSITIVE: Final = PREFIX + "sensitive"
INDEXES: Final = PREFIX + "indexes"
CONDITION: Final = PREFIX + "condition"

_LIMIT: Final = 200


def relevant(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """The annotations with our prefix."""
    return {k: v for k, v in (annotations or {}).items() if k.startswith(PREFIX)}


def is_off(annotations: Mapping[str, str]) -> bool:
    return annotations.get(VIEWS, "").strip().lower() in ("off", "false", "no")


def wants_condition(annotations: Mapping[str, str]) -> bool:
    return annotations.get(CONDITION, "").strip().lower() in ("true", "on", "yes")


def paths(text: str) -> tuple[Path, ...]:
    """`.spec.a, .spec.b[*].c` gives `(("spec", "a"), ("spec", "b", "c"))`: array brackets are dropped."""
    marked = []
    for one in text.replace("\x00", "").split(",")[:_LIMIT]:
        # Up to the last bracket each one is closed: others would be looked for again and again.
        closed, bracket, rest = one.strip().rpartition("]")
        plain = re.sub(r"\[[^\]]*\]", "", closed + bracket) + rest
        steps = [step.replace("\\.", ".") for step in re.split(r"(?<!\\)\.", plain)]
        path = tuple(step for step in steps if step)
        if path:
            marked.append(path)
    return tuple(dict.fromkeys(marked))
