"""Keeps the APIServices of resources served here in step with a tenant's definitions, all of them at once.

Follows kubernetes pkg/controlplane/controller/crdregistration.
"""

from __future__ import annotations

from typing import Final

from registry.api.automatic_api_services import follow_definitions
from registry.controllers.controller_client import ControllerClient
from registry.store.types import ObjectKey

# All APIServices of a tenant are one work item, whichever of them, or of the definitions, has changed.
ALL: Final = ObjectKey("*")
# Writes in quick succession are handled once.
QUIET_SECONDS: Final = 0.1


async def reconcile(client: ControllerClient, key: ObjectKey) -> None:
    await follow_definitions(client.backend, client.tenant)
