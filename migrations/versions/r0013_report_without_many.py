"""A document without many sensitive fields by one call: PostgreSQL takes no more than some thousand in each other."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_FUNCTION = """
    CREATE FUNCTION report_without(document jsonb, paths jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $function$
    DECLARE
        path jsonb;
    BEGIN
        FOR path IN SELECT jsonb_array_elements(paths) LOOP
            document := {schema}.report_without(document, ARRAY(SELECT jsonb_array_elements_text(path)));
        END LOOP;
        RETURN document;
    END
    $function$
"""
_USING = """
    SELECT DISTINCT c.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
        JOIN pg_class c ON c.oid = r.ev_class
    WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = 'report_without(jsonb, jsonb)'::regprocedure
"""


def upgrade() -> None:
    connection = op.get_bind()
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    connection.exec_driver_sql(_FUNCTION.replace("{schema}", schema))


def downgrade() -> None:
    connection = op.get_bind()
    # A server of either version makes them anew: the comment tells by which version they were made.
    for view in connection.exec_driver_sql(_USING).scalars().all():
        op.execute(f"DROP VIEW {view}")
    if connection.exec_driver_sql("SELECT to_regnamespace('reports')").scalar_one():
        op.execute("COMMENT ON SCHEMA reports IS NULL")
    op.execute("DROP FUNCTION report_without(jsonb, jsonb)")
