"""Keeps the APIServices of what is served here in step with the definitions of a tenant, all of them at once.

Follows kubernetes pkg/controlplane/controller/crdregistration.
"""

from __future__ import annotations

from typing import Final

from registry.api.automatic_api_services import follow_definitions
from registry.controllers.controller_client import ControllerClient
from registry.store.types import ObjectKey

# The work for all APIServices of a tenant is one piece: whichever of them, or of the definitions, has changed.
ALL: Final = ObjectKey("*")
# Writes that follow each other soon are followed once.
REST_SECONDS: Final = 0.1


async def reconcile(controlled: ControllerClient, key: ObjectKey) -> None:
    await follow_definitions(controlled.backend, controlled.tenant)
