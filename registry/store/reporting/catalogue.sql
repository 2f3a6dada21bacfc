-- What the schemas `reports` and `reports_all` have beside the views of kinds: views that describe those, and a
-- function. The views show the definitions of the tenants that a session may see.
--
-- setup.py fills in: {schema} of the reports, {tables}, the schema of the tables, {tenant}, the name of the tenant `t`,
-- {sees_tenant}, {sees_definition} and {sees_indexed}, whether the session may see the rows `t`, `m` and `i`, and
-- {built_in}, which adds the views of kinds that every tenant has.

CREATE OR REPLACE VIEW {schema}.definitions WITH (security_barrier) AS
    SELECT {tenant} AS tenant, m.resource AS definition, m.version, v.name AS view, m.state, m.reason,
        m.short_name, m.revision, m.at AS since
    FROM {tables}.report_definitions m
        LEFT JOIN {tables}.report_views v ON v.id = m.view_id
        LEFT JOIN {tables}.tenants t ON t.id = m.tenant_id
    WHERE {sees_definition};
COMMENT ON VIEW {schema}.definitions IS 'What has become of each definition in reports, and why';

CREATE OR REPLACE VIEW {schema}.catalogue WITH (security_barrier) AS
    SELECT v.name AS view, c.part, m.definition, m.version, c.name AS column, c.kind AS type,
        c.field_path, c.description, m.indexed @> jsonb_build_object(coalesce(c.field_path, ''), 1) AS indexed,
        c.relation, c.history
    FROM {tables}.report_views v
    CROSS JOIN LATERAL (
        SELECT min(m.resource) AS definition, string_agg(DISTINCT m.version, ', ' ORDER BY m.version) AS version,
            coalesce((SELECT jsonb_object_agg(
                array_to_string(ARRAY(SELECT jsonb_array_elements_text(f.value)), '.'), 1)
                FROM {tables}.report_definitions i, jsonb_each(i.facets) f
                WHERE i.view_id = v.id AND {sees_indexed}), '{}') AS indexed
        FROM {tables}.report_definitions m
        WHERE m.view_id = v.id AND {sees_definition}
        HAVING count(*) > 0
    ) m
    CROSS JOIN LATERAL (
        SELECT NULL AS part, x.value ->> 'name' AS name, x.value ->> 'kind' AS kind,
            array_to_string(ARRAY(SELECT jsonb_array_elements_text(x.value -> 'path')), '.') AS field_path,
            x.value ->> 'description' AS description, v.name AS relation, v.name || '_history' AS history
        FROM jsonb_array_elements(v.shape -> 'columns') x
        UNION ALL
        SELECT p.value ->> 'name', x.value ->> 'name', x.value ->> 'kind',
            (SELECT string_agg(array_to_string(ARRAY(SELECT jsonb_array_elements_text(s.value)), '.') || '[]', '.'
                ORDER BY s.ordinality) FROM jsonb_array_elements(p.value -> 'path') WITH ORDINALITY s)
                || '.' || array_to_string(ARRAY(SELECT jsonb_array_elements_text(x.value -> 'path')), '.'),
            x.value ->> 'description', p.value ->> 'relation', p.value ->> 'history'
        FROM jsonb_array_elements(v.shape -> 'children') p, jsonb_array_elements(p.value -> 'columns') x
    ) c;
COMMENT ON VIEW {schema}.catalogue IS 'Which column of which view shows which field of which definition';

CREATE OR REPLACE VIEW {schema}.revision WITH (security_barrier) AS
    SELECT {tenant} AS tenant, d.revision, d.compact_revision AS history_from
    FROM {tables}.tenants t JOIN {tables}.domains d ON d.id = t.domain_id
    WHERE {sees_tenant};
COMMENT ON VIEW {schema}.revision IS 'The revision that a transaction sees, and from which on there is history';

CREATE OR REPLACE VIEW {schema}.usage AS
    SELECT {tenant} AS tenant, o.resource AS definition, count(*) AS objects,
        sum(pg_column_size(o.doc)) AS stored_bytes, max(o.updated_at) AS last_write
    FROM {tables}.objects o LEFT JOIN {tables}.tenants t ON t.id = o.tenant_id
    GROUP BY {tenant}, o.resource;
COMMENT ON VIEW {schema}.usage IS 'Objects of each definition and tenant, and the size of their documents';

-- The list of views, which psql cannot give: of definitions of visible tenants, and of built-in kinds.
CREATE OR REPLACE VIEW {schema}.views WITH (security_barrier) AS
    SELECT r.view, v.resource AS definition, r.shows
    FROM {tables}.report_views v
    CROSS JOIN LATERAL (
        VALUES (v.name, 'objects'), (v.name || '_raw', 'whole objects'), (v.name || '_history', 'states of objects')
        UNION ALL
        SELECT p.value ->> 'relation', 'elements of ' || (
            SELECT string_agg(array_to_string(ARRAY(SELECT jsonb_array_elements_text(s.value)), '.') || '[]', '.'
                ORDER BY s.ordinality) FROM jsonb_array_elements(p.value -> 'path') WITH ORDINALITY s
        )
        FROM jsonb_array_elements(v.shape -> 'children') p
        UNION ALL
        SELECT p.value ->> 'history', 'states of elements of ' || (
            SELECT string_agg(array_to_string(ARRAY(SELECT jsonb_array_elements_text(s.value)), '.') || '[]', '.'
                ORDER BY s.ordinality) FROM jsonb_array_elements(p.value -> 'path') WITH ORDINALITY s
        )
        FROM jsonb_array_elements(v.shape -> 'children') p WHERE p.value ->> 'history' IS NOT NULL
    ) r (view, shows)
    WHERE EXISTS (SELECT 1 FROM {tables}.report_definitions m
        WHERE m.view_id = v.id AND {sees_definition})
    {built_in};
COMMENT ON VIEW {schema}.views IS 'The views that have rows for this session, and what a row is';

-- Runs with its caller's privileges. A state whose beginning is unknown, because it is older than the log, counts from
-- `since` on; nothing counts after now. Consecutive stays without a gap are one.
CREATE OR REPLACE FUNCTION {schema}.time_in_state(
    history regclass, field text, since timestamptz, until timestamptz DEFAULT now()
) RETURNS TABLE (
    tenant text, namespace text, name text, uid text, value text, duration interval, stays bigint, still boolean
) LANGUAGE plpgsql STABLE AS $function$
BEGIN
    RETURN QUERY EXECUTE format($query$
        WITH states AS (
            SELECT h.tenant, h.namespace, h.name, h.uid, h.%I::text AS value, greatest(h.valid_from, $1) AS began,
                least(h.valid_to, $2) AS ended, h.valid_to IS NULL OR h.valid_to > $2 AS lasts
            FROM %s h
            WHERE h.operation <> 'delete' AND (h.valid_from IS NULL OR h.valid_from < $2)
                AND (h.valid_to IS NULL OR h.valid_to > $1)
        ), followed AS (
            SELECT s.*, lag(s.ended) OVER before = s.began AND lag(s.value) OVER before IS NOT DISTINCT FROM s.value
                AS goes_on
            FROM states s WHERE s.began < s.ended
            WINDOW before AS (PARTITION BY s.tenant, s.uid ORDER BY s.began)
        )
        SELECT f.tenant, f.namespace, f.name, f.uid, f.value, sum(f.ended - f.began),
            count(*) FILTER (WHERE f.goes_on IS NOT TRUE), bool_or(f.lasts)
        FROM followed f GROUP BY 1, 2, 3, 4, 5
    $query$, field, history) USING since, least(until, now());
END
$function$;
COMMENT ON FUNCTION {schema}.time_in_state IS
    'How long each object had each value of a column of a history view, between two times';
