"""Estimates tell logins for reports nothing of others' values; sensitive fields go from documents of any form."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

# The planner's estimates, which EXPLAIN shows, would tell how often a value occurs in the rows of all tenants.
_UNESTIMATED = ("facet_text1", "facet_text2", "facet_text3", "facet_int1", "facet_int2", "facet_float1", "facet_time1")

_USING = """
    SELECT DISTINCT c.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
        JOIN pg_class c ON c.oid = r.ev_class
    WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'report_without(jsonb, text[])'::regprocedure
"""


def upgrade() -> None:
    _set_statistics(0)
    connection = op.get_bind()
    text = Path(__file__).with_name("r0012_report_privacy.sql").read_text("utf-8")
    connection.exec_driver_sql(text)


def downgrade() -> None:
    connection = op.get_bind()
    # A server of either version makes them anew: the comment tells by which version they were made.
    for view in connection.exec_driver_sql(_USING).scalars().all():
        op.execute(f"DROP VIEW {view}")
    for schema in ("reports", "reports_all"):
        # The one of the version before has fewer columns.
        op.execute(f"DROP VIEW IF EXISTS {schema}.catalogue")
    if connection.exec_driver_sql("SELECT to_regnamespace('reports')").scalar_one():
        op.execute("COMMENT ON SCHEMA reports IS NULL")
    for policy in ("report_own", "report_across"):
        op.execute(f"DROP POLICY IF EXISTS {policy} ON tenants")
    op.execute("ALTER TABLE tenants DISABLE ROW LEVEL SECURITY")
    op.execute("DROP FUNCTION report_without(jsonb, text[])")
    _set_statistics(-1)


def _set_statistics(target: int) -> None:
    op.execute(
        "ALTER TABLE objects " + ", ".join(f"ALTER COLUMN {column} SET STATISTICS {target}" for column in _UNESTIMATED)
    )
