"""What the queues of the controllers hold: one object to look at."""

from __future__ import annotations

import enum
from typing import NamedTuple

from registry.store.types import ObjectKey, ResourceName, Tenant


class Look(enum.Enum):
    """Why an object is looked at, which says how far it goes."""

    OBJECT = "object"  # whatever is due
    NEW_OWNERS = "new owners"  # only whether there are any: to be collected for a waiting owner is not asked for yet
    WAITING = "waiting"  # only whether its deletion can go on


class Work(NamedTuple):
    """One object to look at. The same object of the same tenant is the same work, whatever is known of the tenant."""

    tenant: Tenant
    resource: ResourceName
    key: ObjectKey
    look: Look

    def __hash__(self) -> int:
        return hash((self.tenant.id, self.resource, self.key, self.look))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Work)
            and self.tenant.id == other.tenant.id
            and self.resource == other.resource
            and self.key == other.key
            and self.look is other.look
        )

    def __str__(self) -> str:
        return f"{self.resource} {self.key} of tenant {self.tenant.name}"
