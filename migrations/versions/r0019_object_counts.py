"""Counts of objects by tenant, resource and namespace, for the `remainingItemCount` of lists.

The objects that are there are counted while writes wait: about a second for each million of them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.functions import make_file
from migrations.locks import Lock, Rows

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

LOCKS = (Lock("objects", "SHARE ROW EXCLUSIVE", Rows.READ),)
SERVERS = "0013"


def upgrade() -> None:
    op.create_table(
        "object_counts",
        sa.Column("tenant_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("resource", sa.Text(collation="C"), nullable=False),
        sa.Column("namespace", sa.Text(collation="C"), nullable=False),
        sa.Column("objects", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "resource", "namespace", name="object_counts_pkey"),
        postgresql_with={"fillfactor": "50"},
    )
    make_file(op.get_bind(), "counts.sql")
    # From here on writes wait for the end of this transaction, and are then counted.
    op.execute(
        "CREATE TRIGGER objects_added AFTER INSERT ON objects REFERENCING NEW TABLE AS added"
        " FOR EACH STATEMENT EXECUTE FUNCTION count_added_objects()"
    )
    op.execute(
        "CREATE TRIGGER objects_removed AFTER DELETE ON objects REFERENCING OLD TABLE AS removed"
        " FOR EACH STATEMENT EXECUTE FUNCTION count_removed_objects()"
    )
    op.execute(
        "INSERT INTO object_counts (tenant_id, resource, namespace, objects)"
        " WITH counted AS MATERIALIZED ("
        "  SELECT tenant_id, resource, CASE WHEN strpos(key, '/') > 0 THEN split_part(key, '/', 1) END AS namespace,"
        "   count(*) AS objects FROM objects GROUP BY 1, 2, 3"
        " )"
        " SELECT tenant_id, resource, namespace, objects FROM counted WHERE namespace IS NOT NULL"
        " UNION ALL SELECT tenant_id, resource, '', sum(objects) FROM counted GROUP BY 1, 2"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER objects_added ON objects")
    op.execute("DROP TRIGGER objects_removed ON objects")
    op.execute("DROP FUNCTION count_added_objects()")
    op.execute("DROP FUNCTION count_removed_objects()")
    op.drop_table("object_counts")
