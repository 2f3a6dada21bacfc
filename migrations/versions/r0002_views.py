"""Two views for people with psql: what there is, and what has happened.

They show every tenant and are for the database's owner. `object` is json, not jsonb: jsonb refuses the character
U+0000, which objects may hold, and one such object would fail every query.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_PLACE = """
    t.name AS tenant,
    {0}.resource,
    CASE WHEN strpos({0}.key, '/') > 0 THEN split_part({0}.key, '/', 1) END AS namespace,
    split_part({0}.key, '/', -1) AS name,
    {0}.uid
"""
# A stored body begins behind the resource version (registry/store/types.py, Row).
_OBJECT = """('{{"metadata":{{"resourceVersion":"' || {0} || '",' || {1})::json"""


def upgrade() -> None:
    op.execute(f"""
        CREATE VIEW resources AS
        SELECT {_PLACE.format("o")}, o.revision, o.version, o.created_at, o.updated_at,
            {_OBJECT.format("o.revision", "o.body")} AS object
        FROM objects o JOIN tenants t ON t.id = o.tenant_id
        WHERE t.deleted_at IS NULL
    """)
    op.execute(f"""
        CREATE VIEW resource_history AS
        SELECT {_PLACE.format("c")}, c.revision, c.type, c.actor_user, c.actor_manager, c.actor_verb, c.at,
            {_OBJECT.format("c.revision", "c.body")} AS object,
            {_OBJECT.format("c.previous_revision", "c.previous_body")} AS previous
        FROM changes c JOIN tenants t ON t.id = c.tenant_id
        WHERE t.deleted_at IS NULL
    """)
    op.execute("COMMENT ON VIEW resources IS 'Every object of every tenant as it is now.'")
    op.execute("COMMENT ON VIEW resource_history IS 'Every change within the retention time, and the state before it.'")


def downgrade() -> None:
    op.execute("DROP VIEW resource_history")
    op.execute("DROP VIEW resources")
