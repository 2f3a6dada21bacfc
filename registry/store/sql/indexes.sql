-- Declared indexes (docs/query.md). The table `index_entries` holds the entries of the current objects, sorted. Each
-- object also has its own entries in its column `index_entries`, with the number of the layout that they were made for;
-- words of full text are in `search_words` as well, as a tsvector. Entries of another layout are rebuilt in the
-- background, a page at a time. `ready_indexes` holds the revision from which an index is complete; a write that does
-- not maintain an index deletes its row (commit.sql), so that an incomplete index is never read.
--
-- Each function locks the counter of the domain first, as commits do, so that none works on a state older than the
-- other's.

-- Begins a build: `build` marks the rows of indexes that are not complete. Returns the number of these indexes.
CREATE OR REPLACE FUNCTION registry_index_begin(
    tenant bigint, domain bigint, of_resource text, numbers bigint[], build_id bigint
) RETURNS bigint LANGUAGE plpgsql AS $function$
DECLARE
    unfinished bigint;
BEGIN
    PERFORM 1 FROM domains WHERE id = domain FOR UPDATE;
    DELETE FROM ready_indexes r
    WHERE r.tenant_id = tenant AND r.resource = of_resource AND r.index_id <> ALL (numbers);
    INSERT INTO ready_indexes AS r (tenant_id, resource, index_id, build, revision)
    SELECT tenant, of_resource, n, build_id, NULL FROM unnest(numbers) n
    ON CONFLICT (tenant_id, resource, index_id) DO UPDATE SET build = build_id WHERE r.revision IS NULL;
    SELECT count(*) INTO unfinished FROM ready_indexes r
    WHERE r.tenant_id = tenant AND r.resource = of_resource AND r.index_id = ANY (numbers) AND r.revision IS NULL;
    RETURN unfinished;
END
$function$;

-- Sets the index entries and the labels of objects that have not changed since `revisions`; `entries` are texts of
-- bytea[], `labels` of text[], NULL if there are none, or all together if they remain. Returns
-- 'ok'; 'other', with nothing changed, if another build has begun, which may be of a newer definition; or 'full <bytes
-- requested> <used> <limit>', with nothing changed, if the tenant has no room.
CREATE OR REPLACE FUNCTION registry_index_put(
    tenant bigint, domain bigint, of_resource text, build_id bigint, layout bigint,
    keys text[], revisions bigint[], entries text[], labels text[]
) RETURNS text LANGUAGE plpgsql
-- Looks up the objects of the page alone, whatever the statistics say (commit.sql). Tables are joined on columns of rows, not on
-- arguments, so that no plan reads all objects of a resource, or all entries of a tenant, for each page.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    growth bigint;
    used record;
BEGIN
    PERFORM 1 FROM domains WHERE id = domain FOR UPDATE;
    PERFORM 1 FROM ready_indexes r WHERE r.tenant_id = tenant AND r.resource = of_resource AND r.build = build_id;
    IF NOT FOUND THEN
        RETURN 'other';
    END IF;
    SELECT coalesce(sum(
        coalesce(registry_index_bytes(w.entries::bytea[]), 0) - coalesce(registry_index_bytes(o.index_entries), 0)), 0)
    INTO growth
    FROM unnest(keys, revisions, entries) AS w (key, revision, entries)
    CROSS JOIN LATERAL (
        SELECT o.* FROM objects o WHERE o.tenant_id = tenant AND o.resource = of_resource AND o.key = w.key OFFSET 0
    ) o
    WHERE o.revision = w.revision;
    SELECT t.bytes, t.max_bytes INTO used FROM tenants t WHERE t.id = tenant;
    IF growth > 0 AND used.bytes + growth > used.max_bytes THEN
        RETURN concat_ws(' ', 'full', growth, used.bytes, used.max_bytes);
    END IF;
    UPDATE tenants t SET bytes = t.bytes + growth WHERE t.id = tenant AND growth <> 0;
    WITH found AS MATERIALIZED (
        SELECT o.tenant_id, o.resource, o.key, o.index_entries AS old, w.entries::bytea[] AS new,
            w.labels::text[] AS labels
        FROM unnest(keys, revisions, entries, registry_index_put.labels) AS w (key, revision, entries, labels)
        CROSS JOIN LATERAL (
            SELECT o.* FROM objects o WHERE o.tenant_id = tenant AND o.resource = of_resource AND o.key = w.key OFFSET 0
        ) o
        WHERE o.revision = w.revision
    ), gone AS MATERIALIZED (
        SELECT f.tenant_id, g.entry, f.key FROM found f CROSS JOIN LATERAL unnest(f.old) AS g (entry)
        WHERE g.entry <> ALL (coalesce(f.new, '{}')) AND get_byte(g.entry, 8) <> 2
    ), updated AS (
        UPDATE objects o SET index_layout = layout, index_entries = f.new,
            labels = CASE WHEN registry_index_put.labels IS NULL THEN o.labels ELSE f.labels END
        FROM found f
        WHERE o.tenant_id = ANY (ARRAY[f.tenant_id]) AND o.resource = f.resource AND o.key = f.key
    ), removed AS (
        DELETE FROM index_entries e USING gone g
        WHERE e.tenant_id = ANY (ARRAY[g.tenant_id]) AND e.entry = g.entry AND e.key = g.key
    ), words_removed AS (
        DELETE FROM search_words s USING found f
        WHERE s.tenant_id = ANY (ARRAY[f.tenant_id]) AND s.resource = f.resource AND s.key = f.key
            AND registry_words(tenant, f.new) IS NULL
    ), words_added AS (
        INSERT INTO search_words AS s (tenant_id, resource, key, words)
        SELECT tenant, of_resource, f.key, registry_words(tenant, f.new) FROM found f
        WHERE registry_words(tenant, f.new) IS NOT NULL
        ON CONFLICT (tenant_id, resource, key) DO UPDATE SET words = excluded.words WHERE s.words <> excluded.words
    )
    INSERT INTO index_entries (tenant_id, entry, key)
    SELECT tenant, added.entry, f.key FROM found f CROSS JOIN LATERAL unnest(f.new) AS added (entry)
    WHERE added.entry <> ALL (coalesce(f.old, '{}')) AND get_byte(added.entry, 8) <> 2
    ON CONFLICT DO NOTHING;
    RETURN 'ok';
END
$function$;

-- Ends a build that has processed all objects since registry_index_begin: the indexes that no write has invalidated in
-- the meantime are complete from now on. Returns whether these are all.
CREATE OR REPLACE FUNCTION registry_index_ready(
    tenant bigint, domain bigint, of_resource text, numbers bigint[], build_id bigint
) RETURNS boolean LANGUAGE plpgsql AS $function$
DECLARE
    ready bigint;
BEGIN
    PERFORM 1 FROM domains WHERE id = domain FOR UPDATE;
    UPDATE ready_indexes r SET revision = d.revision FROM domains d
    WHERE d.id = domain AND r.tenant_id = tenant AND r.resource = of_resource AND r.index_id = ANY (numbers)
        AND r.revision IS NULL AND r.build = build_id;
    SELECT count(*) INTO ready FROM ready_indexes r
    WHERE r.tenant_id = tenant AND r.resource = of_resource AND r.index_id = ANY (numbers) AND r.revision IS NOT NULL;
    RETURN ready = cardinality(numbers);
END
$function$;
