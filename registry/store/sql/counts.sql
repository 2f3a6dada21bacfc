-- Triggers on `objects` that maintain `object_counts`: how many objects of a resource a tenant has in each namespace,
-- and in total, under the namespace ''. Triggers rather than a part of registry_commit, so that everything that adds or
-- removes objects is counted, including calls of an older registry_commit that waited for a lock while the triggers
-- were created.
--
-- Commits of a tenant are serialized by the counter of its domain, so there is no contention for these rows.
--
-- registry_commit inserts and deletes in one statement, so both triggers fire for each batch, even of updates alone:
-- they first look whether there is a row.
CREATE OR REPLACE FUNCTION count_added_objects() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    PERFORM FROM added LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO object_counts AS c (tenant_id, resource, namespace, objects)
    SELECT a.tenant_id, a.resource, n.namespace, count(*)
    FROM added a CROSS JOIN LATERAL (
        SELECT '' COLLATE "C" AS namespace
        UNION ALL SELECT split_part(a.key, '/', 1) WHERE strpos(a.key, '/') > 0
    ) n
    GROUP BY a.tenant_id, a.resource, n.namespace
    ORDER BY a.tenant_id, a.resource, n.namespace
    ON CONFLICT (tenant_id, resource, namespace) DO UPDATE SET objects = c.objects + excluded.objects;
    RETURN NULL;
END
$function$;

CREATE OR REPLACE FUNCTION count_removed_objects() RETURNS trigger LANGUAGE plpgsql AS $function$
DECLARE
    has_empty boolean;
BEGIN
    PERFORM FROM removed LIMIT 1;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    WITH fewer AS (
        SELECT r.tenant_id, r.resource, n.namespace, count(*) AS objects
        FROM removed r CROSS JOIN LATERAL (
            SELECT '' COLLATE "C" AS namespace
            UNION ALL SELECT split_part(r.key, '/', 1) WHERE strpos(r.key, '/') > 0
        ) n
        GROUP BY r.tenant_id, r.resource, n.namespace
    ), counted AS (
        UPDATE object_counts c SET objects = c.objects - f.objects FROM fewer f
        WHERE c.tenant_id = ANY (ARRAY[f.tenant_id]) AND c.resource = f.resource AND c.namespace = f.namespace
        RETURNING c.objects
    )
    SELECT bool_or(objects = 0) INTO has_empty FROM counted;
    IF has_empty THEN
        DELETE FROM object_counts c USING (SELECT DISTINCT tenant_id, resource FROM removed) r
        WHERE c.tenant_id = ANY (ARRAY[r.tenant_id]) AND c.resource = r.resource AND c.objects = 0;
    END IF;
    RETURN NULL;
END
$function$;
