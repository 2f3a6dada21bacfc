-- One write of a batch (registry/store/types.py, Write). `labels`, `owners`, `doc` and `unless_used` are texts of the
-- types that they are stored or read as, NULL if there are none. So are `index_numbers`, the indexes that the write
-- maintains, and `index_entries`, in the layout `index_layout` (indexes.sql). `flags` are those of WriteFlag:
--     1 changes definitions   2 changes namespaces   4 pending        8 counts as a definition   16 as a namespace
--     32 unlimited            128 by the server      256 follow up    512 terminating
--     1024 by the previous release, which sets neither of the last two: both are NULL in the row (former.sql)
CREATE TYPE registry_write AS (
    tenant_id bigint,
    domain_id bigint,
    schema_id bigint,
    flags bigint,
    expected_revision bigint,
    expected_definitions bigint,
    expected_namespaces bigint,
    index_layout bigint,
    operation text,
    resource text,
    key text,
    uid text,
    version text,
    body text,
    actor_user text,
    actor_manager text,
    actor_verb text,
    labels text,
    owners text,
    doc text,
    unless_used text,
    index_numbers text,
    index_entries text
);

-- The bytes of a tenant's limit that the index entries of one object use: the entries, and an overhead for each.
CREATE OR REPLACE FUNCTION registry_index_bytes(entries bytea[]) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS $function$
    SELECT coalesce(sum(octet_length(e) + 64), 0)::bigint FROM unnest(entries) AS e
$function$;

-- The words among the entries of an object (registry/query/encoding.py, WORD) as a tsvector, NULL if there are none.
-- Each word is prefixed with tenant and index, so that one GIN index serves all, and a search reads only its own words.
CREATE OR REPLACE FUNCTION registry_words(tenant bigint, entries bytea[]) RETURNS tsvector LANGUAGE sql IMMUTABLE STRICT
PARALLEL SAFE AS $function$
    SELECT array_to_tsvector(array_agg(
        encode(int8send(tenant) || substr(e, 1, 8), 'base64') || convert_from(substr(e, 10), 'UTF8')
    )) FROM unnest(entries) AS e WHERE get_byte(e, 8) = 2
$function$;

-- For each write of a batch, in order: the limit of its tenant that it would exceed, as 'objects <requested> <used>
-- <limit>', or NULL. Called while the counters of the domains are locked. Writes that fail for another reason do not
-- count.
CREATE OR REPLACE FUNCTION registry_refusals(writes registry_write[]) RETURNS text[] LANGUAGE plpgsql AS $function$
DECLARE
    refusals text[] := array_fill(NULL::text, ARRAY[cardinality(writes)]);
    refusal text;
    w record;
    present bigint := NULL;
    n_objects bigint;
    n_bytes bigint;
    n_definitions bigint;
    n_namespaces bigint;
    step bigint;
BEGIN
    FOR w IN
        SELECT u.ordinality, u.tenant_id, u.operation, u.flags,
            octet_length(u.body) - coalesce(octet_length(o.body), 0)
                + coalesce(registry_index_bytes(CASE u.operation WHEN 'delete' THEN NULL ELSE u.index_entries::bytea[] END), 0)
                - coalesce(registry_index_bytes(o.index_entries), 0) AS growth,
            t.objects, t.bytes, t.definitions, t.namespaces,
            t.max_objects, t.max_bytes, t.max_definitions, t.max_namespaces
        FROM unnest(writes) WITH ORDINALITY AS u
        JOIN tenants t ON t.id = ANY (ARRAY[u.tenant_id])
        LEFT JOIN objects o ON o.tenant_id = ANY (ARRAY[u.tenant_id]) AND o.resource = u.resource AND o.key = u.key
        WHERE (u.operation = 'create') = (o.revision IS NULL)
            AND coalesce(u.expected_revision = o.revision, true)
            AND coalesce(u.expected_definitions = t.definitions_revision, true)
            AND coalesce(u.expected_namespaces = t.namespaces_revision, true)
        ORDER BY u.tenant_id, u.ordinality
    LOOP
        IF w.tenant_id IS DISTINCT FROM present THEN
            present := w.tenant_id;
            n_objects := w.objects;
            n_bytes := w.bytes;
            n_definitions := w.definitions;
            n_namespaces := w.namespaces;
        END IF;
        refusal := CASE
            WHEN w.flags & 32 <> 0 THEN NULL
            WHEN w.operation = 'create' AND n_objects + 1 > w.max_objects
                THEN concat_ws(' ', 'objects', 1, n_objects, w.max_objects)
            WHEN w.operation = 'create' AND w.flags & 8 <> 0 AND n_definitions + 1 > w.max_definitions
                THEN concat_ws(' ', 'definitions', 1, n_definitions, w.max_definitions)
            WHEN w.operation = 'create' AND w.flags & 16 <> 0 AND n_namespaces + 1 > w.max_namespaces
                THEN concat_ws(' ', 'namespaces', 1, n_namespaces, w.max_namespaces)
            WHEN w.growth > 0 AND n_bytes + w.growth > w.max_bytes
                THEN concat_ws(' ', 'bytes', w.growth, n_bytes, w.max_bytes)
        END;
        IF refusal IS NOT NULL THEN
            refusals[w.ordinality] := refusal;
            CONTINUE;
        END IF;
        step := CASE w.operation WHEN 'create' THEN 1 WHEN 'delete' THEN -1 ELSE 0 END;
        n_objects := n_objects + step;
        n_bytes := n_bytes + w.growth;
        n_definitions := n_definitions + CASE WHEN w.flags & 8 <> 0 THEN step ELSE 0 END;
        n_namespaces := n_namespaces + CASE WHEN w.flags & 16 <> 0 THEN step ELSE 0 END;
    END LOOP;
    RETURN refusals;
END
$function$;

-- Commits a batch of writes. Objects, revisions, guards and the change log change in no other way.
--
-- `writes` are in the order in which they take effect. The caller ensures that no two writes of a batch are of the same
-- object, and that none follows a write of its tenant that changes a guard. The result has one row per write: the
-- outcome ('ok', 'exists', 'missing', 'conflict', 'used', 'guards', 'suspended', 'near', 'quota' or 'tenant'), the
-- revision assigned to it, the guards after it, the object that it found (with 'ok' without revision and body), and
-- with 'quota' the limit that it would exceed, as 'objects <requested> <used> <limit>'.
--
-- Limits of tenants: `room` is at least the bytes of all bodies and entries, so for a tenant with room for the whole
-- batch one comparison suffices. Otherwise its writes that grow get the outcome 'near', and the caller sends them again
-- with `exact`, which counts them one by one. An unlimited write is counted, but never refused. Writes of the server
-- itself continue in a suspended tenant.
--
-- There are two statements, because each has its own snapshot (READ COMMITTED): the first waits for the counters, the
-- second sees everything that the transactions waited for have committed. A single statement would have a snapshot from
-- before the wait.
--
-- The planner settings and the form of the joins (registry/store/statements.py) force index lookups from the first call on,
-- whatever the statistics say, or if there are none: the plan is cached for the life of the connection, and the table may
-- have been empty when it was made.
CREATE OR REPLACE FUNCTION registry_commit(
    batch_id bigint,
    writes registry_write[],
    room bigint,
    exact boolean
) RETURNS TABLE (
    write_ordinal bigint,
    outcome text,
    given_revision bigint,
    definitions bigint,
    namespaces bigint,
    found_uid text,
    found_revision bigint,
    found_version text,
    found_schema_id bigint,
    found_body text,
    refusal text
) LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
AS $function$
DECLARE
    domain_ids bigint[];
    committed_at timestamptz;
    refusals text[];
BEGIN
    domain_ids := ARRAY(SELECT DISTINCT w.domain_id FROM unnest(writes) w);
    PERFORM 1 FROM domains WHERE id = ANY (domain_ids) ORDER BY id FOR UPDATE;
    committed_at := clock_timestamp();
    IF exact THEN
        refusals := registry_refusals(writes);
    END IF;

    RETURN QUERY
    WITH checked AS MATERIALIZED (
        SELECT
            w.*,
            d.revision AS domain_revision,
            t.definitions_revision,
            t.namespaces_revision,
            o.uid AS o_uid, o.revision AS o_revision, o.version AS o_version, o.schema_id AS o_schema_id,
            o.body AS o_body, o.labels AS o_labels, o.index_entries AS o_index_entries, o.doc AS o_doc,
            CASE
                WHEN t.id IS NULL OR d.id IS NULL THEN 'tenant'
                WHEN t.suspended AND w.flags & 128 = 0 THEN 'suspended'
                WHEN w.expected_definitions <> t.definitions_revision
                    OR w.expected_namespaces <> t.namespaces_revision THEN 'guards'
                WHEN w.operation = 'create' AND o.revision IS NOT NULL THEN 'exists'
                WHEN w.operation <> 'create' AND o.revision IS NULL THEN 'missing'
                WHEN w.operation <> 'create' AND w.expected_revision <> o.revision THEN 'conflict'
                WHEN registry_in_use(w.tenant_id, w.unless_used::jsonb) THEN 'used'
                WHEN exact THEN CASE WHEN refusals[w.ordinality] IS NULL THEN 'ok' ELSE 'quota' END
                WHEN w.flags & 32 = 0 AND (
                    w.operation = 'create' AND (
                        t.objects + cardinality(writes) > t.max_objects
                        OR w.flags & 8 <> 0 AND t.definitions + cardinality(writes) > t.max_definitions
                        OR w.flags & 16 <> 0 AND t.namespaces + cardinality(writes) > t.max_namespaces)
                    OR t.bytes + room > t.max_bytes AND (
                        octet_length(w.body) > coalesce(octet_length(o.body), 0) OR w.index_entries IS NOT NULL)
                ) THEN 'near'
                ELSE 'ok'
            END AS verdict
        FROM unnest(writes) WITH ORDINALITY AS w
        LEFT JOIN domains d ON d.id = ANY (ARRAY[w.domain_id])
        LEFT JOIN tenants t ON t.id = ANY (ARRAY[w.tenant_id]) AND t.domain_id + 0 = w.domain_id AND t.deleted_at IS NULL
        LEFT JOIN objects o ON o.tenant_id = ANY (ARRAY[w.tenant_id]) AND o.resource = w.resource AND o.key = w.key
    ), accepted AS MATERIALIZED (
        SELECT
            c.*,
            c.domain_revision + row_number() OVER (PARTITION BY c.domain_id ORDER BY c.ordinality) AS new_revision,
            c.labels::text[] AS new_labels,
            registry_words(c.tenant_id, c.o_index_entries) AS o_words,
            registry_words(c.tenant_id, n.index_entries) AS new_words,
            n.index_entries AS new_index_entries
        FROM checked c CROSS JOIN LATERAL (
            SELECT CASE c.operation WHEN 'delete' THEN NULL ELSE c.index_entries::bytea[] END AS index_entries
        ) n
        WHERE c.verdict = 'ok'
    ), written AS (
        -- One statement for creates and updates: starting it costs more than a row does. The verdicts hold until the end of
        -- the transaction, so a row in conflict is that of an update.
        INSERT INTO objects (
            tenant_id, resource, key, uid, revision, version, schema_id, body, labels, owners, doc,
            pending, terminating, created_at, updated_at, index_layout, index_entries
        )
        SELECT
            a.tenant_id, a.resource, a.key, a.uid, a.new_revision, a.version, a.schema_id, a.body, a.new_labels,
            a.owners::text[], a.doc::jsonb, a.flags & 4 <> 0,
            CASE WHEN a.flags & 1024 = 0 THEN a.flags & 512 <> 0 END, committed_at, committed_at,
            a.index_layout, a.new_index_entries
        FROM accepted a
        WHERE a.operation <> 'delete'
        ON CONFLICT (tenant_id, resource, key) DO UPDATE
        SET uid = excluded.uid, revision = excluded.revision, version = excluded.version,
            schema_id = excluded.schema_id, body = excluded.body, labels = excluded.labels, owners = excluded.owners,
            doc = excluded.doc, pending = excluded.pending, terminating = excluded.terminating,
            updated_at = excluded.updated_at, index_layout = excluded.index_layout,
            index_entries = excluded.index_entries
    ), deleted AS (
        DELETE FROM objects o
        USING accepted a
        WHERE a.operation = 'delete'
            AND o.tenant_id = ANY (ARRAY[a.tenant_id]) AND o.resource = a.resource AND o.key = a.key
    ), words_removed AS (
        DELETE FROM search_words s USING accepted a
        WHERE a.o_words IS NOT NULL AND a.new_words IS NULL
            AND s.tenant_id = ANY (ARRAY[a.tenant_id]) AND s.resource = a.resource AND s.key = a.key
    ), words_added AS (
        INSERT INTO search_words AS s (tenant_id, resource, key, words)
        SELECT a.tenant_id, a.resource, a.key, a.new_words
        FROM accepted a
        WHERE a.new_words IS NOT NULL AND a.new_words IS DISTINCT FROM a.o_words
        ON CONFLICT (tenant_id, resource, key) DO UPDATE SET words = excluded.words
    ), entries_gone AS MATERIALIZED (
        -- Made first: joined to the objects alone, the planner may read all entries of a tenant to find those of a key.
        SELECT a.tenant_id, gone.entry, a.key
        FROM accepted a CROSS JOIN LATERAL unnest(a.o_index_entries) AS gone (entry)
        WHERE gone.entry <> ALL (coalesce(a.new_index_entries, '{}')) AND get_byte(gone.entry, 8) <> 2
    ), entries_removed AS (
        DELETE FROM index_entries e USING entries_gone g
        WHERE e.tenant_id = ANY (ARRAY[g.tenant_id]) AND e.entry = g.entry AND e.key = g.key
    ), entries_added AS (
        INSERT INTO index_entries (tenant_id, entry, key)
        SELECT a.tenant_id, added.entry, a.key
        FROM accepted a CROSS JOIN LATERAL unnest(a.new_index_entries) AS added (entry)
        WHERE added.entry <> ALL (coalesce(a.o_index_entries, '{}')) AND get_byte(added.entry, 8) <> 2
        ON CONFLICT DO NOTHING
    ), indexes_invalidated AS (
        -- An index that the write does not maintain is no longer complete.
        DELETE FROM ready_indexes r USING accepted a
        WHERE a.operation <> 'delete' AND r.tenant_id = ANY (ARRAY[a.tenant_id]) AND r.resource = a.resource
            AND r.index_id <> ALL (coalesce(a.index_numbers::bigint[], '{}'))
    ), domains_advanced AS (
        UPDATE domains d
        SET revision = m.revision
        FROM (SELECT a.domain_id, max(a.new_revision) AS revision FROM accepted a GROUP BY a.domain_id) m
        WHERE d.id = ANY (ARRAY[m.domain_id])
    ), totals AS MATERIALIZED (
        SELECT a.tenant_id,
            sum(CASE a.operation WHEN 'create' THEN 1 WHEN 'delete' THEN -1 ELSE 0 END) AS objects,
            sum(octet_length(a.body) - coalesce(octet_length(a.o_body), 0)
                + coalesce(registry_index_bytes(a.new_index_entries), 0)
                - coalesce(registry_index_bytes(a.o_index_entries), 0)) AS bytes,
            sum(CASE WHEN a.flags & 8 = 0 THEN 0
                WHEN a.operation = 'create' THEN 1 WHEN a.operation = 'delete' THEN -1 ELSE 0 END) AS definitions,
            sum(CASE WHEN a.flags & 16 = 0 THEN 0
                WHEN a.operation = 'create' THEN 1 WHEN a.operation = 'delete' THEN -1 ELSE 0 END) AS namespaces,
            max(CASE WHEN a.flags & 1 <> 0 THEN a.new_revision END) AS definitions_revision,
            max(CASE WHEN a.flags & 2 <> 0 THEN a.new_revision END) AS namespaces_revision
        FROM accepted a
        GROUP BY a.tenant_id
    ), tenants_updated AS (
        UPDATE tenants t
        SET objects = t.objects + c.objects, bytes = t.bytes + c.bytes,
            definitions = t.definitions + c.definitions, namespaces = t.namespaces + c.namespaces,
            definitions_revision = coalesce(c.definitions_revision, t.definitions_revision),
            namespaces_revision = coalesce(c.namespaces_revision, t.namespaces_revision)
        FROM totals c
        WHERE t.id = ANY (ARRAY[c.tenant_id]) AND (
            c.objects <> 0 OR c.bytes <> 0 OR c.definitions_revision IS NOT NULL OR c.namespaces_revision IS NOT NULL
        )
    ), logged AS (
        INSERT INTO changes (
            domain_id, revision, batch, tenant_id, resource, key, uid, type, version, schema_id, body, labels,
            previous_revision, previous_version, previous_schema_id, previous_body, previous_labels,
            actor_user, actor_manager, actor_verb, at, follow_up, previous_index_entries, previous_doc
        )
        SELECT
            a.domain_id, a.new_revision, batch_id, a.tenant_id, a.resource, a.key,
            CASE a.operation WHEN 'delete' THEN a.o_uid ELSE a.uid END,
            CASE a.operation WHEN 'create' THEN 'ADDED' WHEN 'update' THEN 'MODIFIED' ELSE 'DELETED' END,
            CASE a.operation WHEN 'delete' THEN a.o_version ELSE a.version END,
            CASE a.operation WHEN 'delete' THEN a.o_schema_id ELSE a.schema_id END,
            CASE a.operation WHEN 'delete' THEN NULL ELSE a.body END,
            CASE a.operation WHEN 'delete' THEN a.o_labels ELSE a.new_labels END,
            a.o_revision, a.o_version, a.o_schema_id, a.o_body, a.o_labels,
            a.actor_user, a.actor_manager, a.actor_verb, committed_at,
            CASE WHEN a.flags & 1024 = 0 THEN a.flags & 256 <> 0 END, a.o_index_entries, a.o_doc
        FROM accepted a
    )
    SELECT
        c.ordinality, c.verdict, a.new_revision,
        CASE WHEN a.flags & 1 <> 0 THEN a.new_revision ELSE c.definitions_revision END,
        CASE WHEN a.flags & 2 <> 0 THEN a.new_revision ELSE c.namespaces_revision END,
        c.o_uid,
        -- What a write replaces is neither decompressed nor sent. By the missing revision the previous release knows that
        -- nothing was found.
        CASE c.verdict WHEN 'ok' THEN NULL ELSE c.o_revision END,
        c.o_version, c.o_schema_id,
        CASE c.verdict WHEN 'ok' THEN NULL ELSE c.o_body END,
        CASE c.verdict WHEN 'quota' THEN refusals[c.ordinality] END
    FROM checked c
    LEFT JOIN accepted a ON a.ordinality = c.ordinality
    ORDER BY c.ordinality;
END
$function$;
