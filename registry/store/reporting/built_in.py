"""The views of kinds that every tenant has: namespaces, roles and their bindings.

There is one set for all tenants, created with its schema. Objects of these kinds have no documents, since no tenant has
enabled reporting on them: the views decode the stored bodies.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from registry.store.connection import Connection
from registry.store.reporting.comments import comments
from registry.store.reporting.ddl import replace_views
from registry.store.reporting.locations import rival_names
from registry.store.reporting.model import BuiltInViews
from registry.store.reporting.setup import ALL_SCHEMA, OWN_SCHEMA, Roles, one_row
from registry.store.reporting.sql import ViewPlace, statements

logger = logging.getLogger(__name__)


async def make_built_in(connection: Connection, roles: Roles, across: bool, kinds: Sequence[BuiltInViews]) -> None:
    """Creates or replaces their views in one of the schemas; failures are logged."""
    schema = ALL_SCHEMA if across else OWN_SCHEMA
    for kind in kinds:
        taken = "SELECT resource FROM report_views WHERE name = ANY (%s)"
        if (rival := await one_row(connection, taken, (rival_names(kind.name),))) is not None:
            logger.warning("%s has no views: the definition %s has views of that name", kind.resource, rival[0])
            continue
        place = ViewPlace(schema, kind.name, kind.resource, 0, roles.tables, across=across, built_in=True)
        texts = [*statements(place, kind.shape, {}), *comments(place, kind.shape)]
        why = await replace_views(connection, roles.of(across)[0], place, kind.shape, texts)
        if why:
            logger.warning("the views of %s cannot be made in %s: %s", kind.resource, schema, why)
