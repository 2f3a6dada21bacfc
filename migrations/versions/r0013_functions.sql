-- The functions of revision 0013, as the release with that revision made them: a step down to it makes them again.

CREATE OR REPLACE FUNCTION registry_commit(batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[], uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[], docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean) RETURNS TABLE(write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text, found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text)
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    committed_at timestamptz;
    refusals text[];
BEGIN
    PERFORM 1 FROM domains WHERE id = ANY (domain_ids) ORDER BY id FOR UPDATE;
    committed_at := clock_timestamp();
    IF exact THEN
        refusals := registry_refusals(
            tenant_ids, operations, resources, keys, bodies, expected_revisions, expected_definitions,
            expected_namespaces, guard_flags
        );
    END IF;

    RETURN QUERY
    WITH judged AS MATERIALIZED (
        SELECT
            w.*,
            d.revision AS domain_revision,
            t.definitions_revision,
            t.namespaces_revision,
            o.uid AS o_uid, o.revision AS o_revision, o.version AS o_version, o.schema_id AS o_schema_id,
            o.body AS o_body, o.labels AS o_labels,
            CASE
                WHEN t.id IS NULL OR d.id IS NULL THEN 'tenant'
                WHEN t.suspended AND w.guard_flag & 128 = 0 THEN 'suspended'
                WHEN w.expected_definition <> t.definitions_revision
                    OR w.expected_namespace <> t.namespaces_revision THEN 'guards'
                WHEN w.operation = 'create' AND o.revision IS NOT NULL THEN 'exists'
                WHEN w.operation <> 'create' AND o.revision IS NULL THEN 'missing'
                WHEN w.operation <> 'create' AND w.expected_revision <> o.revision THEN 'conflict'
                WHEN w.guard_flag & 64 <> 0 AND registry_in_use(w.tenant_id, w.resource, w.key) THEN 'used'
                WHEN exact THEN CASE WHEN refusals[w.ordinal] IS NULL THEN 'ok' ELSE 'quota' END
                WHEN w.guard_flag & 32 = 0 AND (
                    w.operation = 'create' AND (
                        t.objects + cardinality(keys) > t.max_objects
                        OR w.guard_flag & 8 <> 0 AND t.definitions + cardinality(keys) > t.max_definitions
                        OR w.guard_flag & 16 <> 0 AND t.namespaces + cardinality(keys) > t.max_namespaces)
                    OR t.bytes + room > t.max_bytes AND octet_length(w.body) > coalesce(octet_length(o.body), 0)
                ) THEN 'near'
                ELSE 'ok'
            END AS verdict
        FROM unnest(
            tenant_ids, domain_ids, operations, resources, keys, uids, versions, schema_ids, bodies, labels_lists,
            owners_lists, docs, expected_revisions, expected_definitions, expected_namespaces, guard_flags,
            actor_users, actor_managers, actor_verbs
        ) WITH ORDINALITY AS w (
            tenant_id, domain_id, operation, resource, key, uid, version, schema_id, body, labels_list,
            owners_list, doc, expected_revision, expected_definition, expected_namespace, guard_flag,
            actor_user, actor_manager, actor_verb, ordinal
        )
        LEFT JOIN domains d ON d.id = w.domain_id
        LEFT JOIN tenants t ON t.id = w.tenant_id AND t.domain_id = w.domain_id AND t.deleted_at IS NULL
        LEFT JOIN objects o ON o.tenant_id = w.tenant_id AND o.resource = w.resource AND o.key = w.key
    ), accepted AS MATERIALIZED (
        SELECT
            j.*,
            j.domain_revision + row_number() OVER (PARTITION BY j.domain_id ORDER BY j.ordinal) AS new_revision,
            j.labels_list::text[] AS new_labels
        FROM judged j
        WHERE j.verdict = 'ok'
    ), inserted AS (
        INSERT INTO objects (
            tenant_id, resource, key, uid, revision, version, schema_id, body, labels, owners, doc,
            pending, created_at, updated_at
        )
        SELECT
            a.tenant_id, a.resource, a.key, a.uid, a.new_revision, a.version, a.schema_id, a.body, a.new_labels,
            a.owners_list::text[], a.doc::jsonb, a.guard_flag & 4 <> 0, committed_at, committed_at
        FROM accepted a
        WHERE a.operation = 'create'
    ), updated AS (
        UPDATE objects o
        SET uid = a.uid, revision = a.new_revision, version = a.version, schema_id = a.schema_id, body = a.body,
            labels = a.new_labels, owners = a.owners_list::text[], doc = a.doc::jsonb,
            pending = a.guard_flag & 4 <> 0, updated_at = committed_at
        FROM accepted a
        WHERE a.operation = 'update'
            AND o.tenant_id = a.tenant_id AND o.resource = a.resource AND o.key = a.key
    ), deleted AS (
        DELETE FROM objects o
        USING accepted a
        WHERE a.operation = 'delete'
            AND o.tenant_id = a.tenant_id AND o.resource = a.resource AND o.key = a.key
    ), counted AS (
        UPDATE domains d
        SET revision = m.revision
        FROM (SELECT a.domain_id, max(a.new_revision) AS revision FROM accepted a GROUP BY a.domain_id) m
        WHERE d.id = m.domain_id
    ), changed AS MATERIALIZED (
        SELECT a.tenant_id,
            sum(CASE a.operation WHEN 'create' THEN 1 WHEN 'delete' THEN -1 ELSE 0 END) AS objects,
            sum(octet_length(a.body) - coalesce(octet_length(a.o_body), 0)) AS bytes,
            sum(CASE WHEN a.guard_flag & 8 = 0 THEN 0
                WHEN a.operation = 'create' THEN 1 WHEN a.operation = 'delete' THEN -1 ELSE 0 END) AS definitions,
            sum(CASE WHEN a.guard_flag & 16 = 0 THEN 0
                WHEN a.operation = 'create' THEN 1 WHEN a.operation = 'delete' THEN -1 ELSE 0 END) AS namespaces,
            max(CASE WHEN a.guard_flag & 1 <> 0 THEN a.new_revision END) AS definitions_revision,
            max(CASE WHEN a.guard_flag & 2 <> 0 THEN a.new_revision END) AS namespaces_revision
        FROM accepted a
        GROUP BY a.tenant_id
    ), guarded AS (
        UPDATE tenants t
        SET objects = t.objects + c.objects, bytes = t.bytes + c.bytes,
            definitions = t.definitions + c.definitions, namespaces = t.namespaces + c.namespaces,
            definitions_revision = coalesce(c.definitions_revision, t.definitions_revision),
            namespaces_revision = coalesce(c.namespaces_revision, t.namespaces_revision)
        FROM changed c
        WHERE t.id = c.tenant_id AND (
            c.objects <> 0 OR c.bytes <> 0 OR c.definitions_revision IS NOT NULL OR c.namespaces_revision IS NOT NULL
        )
    ), logged AS (
        INSERT INTO changes (
            domain_id, revision, batch, tenant_id, resource, key, uid, type, version, schema_id, body, labels,
            previous_revision, previous_version, previous_schema_id, previous_body, previous_labels,
            actor_user, actor_manager, actor_verb, at
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
            a.actor_user, a.actor_manager, a.actor_verb, committed_at
        FROM accepted a
    )
    SELECT
        j.ordinal, j.verdict, a.new_revision,
        CASE WHEN a.guard_flag & 1 <> 0 THEN a.new_revision ELSE j.definitions_revision END,
        CASE WHEN a.guard_flag & 2 <> 0 THEN a.new_revision ELSE j.namespaces_revision END,
        j.o_uid, j.o_revision, j.o_version, j.o_schema_id, j.o_body,
        CASE j.verdict WHEN 'quota' THEN refusals[j.ordinal] END
    FROM judged j
    LEFT JOIN accepted a ON a.ordinal = j.ordinal
    ORDER BY j.ordinal;
END
$$;

CREATE OR REPLACE FUNCTION registry_commit_shared(batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[], uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[], docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean, wanted jsonb) RETURNS TABLE(write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text, found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    needed bigint[];
    why text;
    at_revision bigint;
BEGIN
    SELECT array_agg(DISTINCT n.domain_id) INTO needed FROM (
        SELECT unnest(domain_ids) AS domain_id
        UNION ALL
        SELECT t.domain_id FROM tenants t WHERE t.name = wanted ->> 'provider'
        UNION ALL
        SELECT t.domain_id FROM api_bindings b JOIN tenants t ON t.id = b.tenant_id
        WHERE b.provider_id = tenant_ids[1] AND b.until IS NULL
    ) n;
    PERFORM 1 FROM domains d WHERE d.id = ANY (needed) ORDER BY d.id FOR UPDATE;
    IF EXISTS (
        SELECT 1 FROM api_bindings b JOIN tenants t ON t.id = b.tenant_id
        WHERE b.provider_id = tenant_ids[1] AND b.until IS NULL AND t.domain_id <> ALL (needed)
    ) THEN
        RAISE EXCEPTION 'a tenant has bound meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
    why := registry_sharing_refusal(tenant_ids[1], wanted);
    IF why IS NOT NULL THEN
        RETURN QUERY SELECT 1::bigint, 'sharing'::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
            NULL::bigint, NULL::text, NULL::bigint, NULL::text, why;
        RETURN;
    END IF;
    RETURN QUERY SELECT c.* FROM registry_commit(
        batch_id, tenant_ids, domain_ids, operations, resources, keys, uids, versions, schema_ids, bodies, labels_lists,
        owners_lists, docs, expected_revisions, expected_definitions, expected_namespaces, guard_flags, actor_users,
        actor_managers, actor_verbs, room, exact
    ) c;
    -- The object was given a revision by this very transaction, or it was refused.
    SELECT c.revision INTO at_revision FROM changes c
    WHERE c.tenant_id = tenant_ids[1] AND c.resource = resources[1] AND c.key = keys[1] AND c.batch = batch_id;
    IF FOUND THEN
        PERFORM registry_share(tenant_ids[1], batch_id, at_revision, wanted);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION registry_commit_tenant(batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[], uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[], docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean, wanted jsonb) RETURNS TABLE(write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text, found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    why text;
BEGIN
    PERFORM 1 FROM domains d
    WHERE d.id = ANY (domain_ids) OR d.name = wanted ->> 'domain'
        OR d.id = (SELECT t.domain_id FROM tenants t WHERE t.name = wanted ->> 'name')
    ORDER BY d.id FOR UPDATE;
    why := registry_tenancy_refusal(wanted, operations[1] = 'create');
    IF why IS NOT NULL THEN
        RETURN QUERY SELECT 1::bigint, 'tenancy'::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
            NULL::bigint, NULL::text, NULL::bigint, NULL::text, why;
        RETURN;
    END IF;
    RETURN QUERY SELECT c.* FROM registry_commit(
        batch_id, tenant_ids, domain_ids, operations, resources, keys, uids, versions, schema_ids, bodies, labels_lists,
        owners_lists, docs, expected_revisions, expected_definitions, expected_namespaces, guard_flags, actor_users,
        actor_managers, actor_verbs, room, exact
    ) c;
    -- The object was given a revision by this very transaction, or it was refused.
    IF EXISTS (SELECT 1 FROM changes c WHERE c.tenant_id = tenant_ids[1] AND c.resource = resources[1]
            AND c.key = keys[1] AND c.batch = batch_id) THEN
        PERFORM registry_follow(wanted);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION registry_follow(wanted jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    domain bigint;
    limits jsonb := coalesce(wanted -> 'limits', '{}'::jsonb);
BEGIN
    IF wanted ->> 'life' = 'gone' THEN
        RETURN;
    END IF;
    IF wanted ->> 'life' = 'ending' THEN
        UPDATE tenants SET deleted_at = coalesce(deleted_at, now()) WHERE name = wanted ->> 'name';
        RETURN;
    END IF;
    UPDATE tenants t
    SET parent = wanted ->> 'parent', suspended = coalesce((wanted ->> 'suspended')::boolean, false),
        sql_schema = wanted ->> 'sqlSchema',
        max_objects = (limits ->> 'objects')::bigint, max_bytes = (limits ->> 'bytes')::bigint,
        max_definitions = (limits ->> 'definitions')::bigint, max_namespaces = (limits ->> 'namespaces')::bigint,
        attributes = coalesce(wanted -> 'attributes', '{}'::jsonb)
            || jsonb_strip_nulls(jsonb_build_object('server', t.attributes -> 'server'))
    WHERE name = wanted ->> 'name';
    IF FOUND THEN
        RETURN;
    END IF;
    IF wanted ->> 'domain' IS NOT NULL THEN
        INSERT INTO domains (name) VALUES (wanted ->> 'domain')
        ON CONFLICT (name) WHERE name IS NOT NULL DO UPDATE SET name = excluded.name
        RETURNING id INTO domain;
    ELSE
        INSERT INTO domains (revision) VALUES (0) RETURNING id INTO domain;
    END IF;
    INSERT INTO tenants (
        name, domain_id, parent, suspended, sql_schema, max_objects, max_bytes, max_definitions, max_namespaces, attributes
    ) VALUES (
        wanted ->> 'name', domain, wanted ->> 'parent', coalesce((wanted ->> 'suspended')::boolean, false),
        wanted ->> 'sqlSchema', (limits ->> 'objects')::bigint, (limits ->> 'bytes')::bigint,
        (limits ->> 'definitions')::bigint, (limits ->> 'namespaces')::bigint,
        coalesce(wanted -> 'attributes', '{}'::jsonb)
    );
END
$$;

CREATE OR REPLACE FUNCTION registry_in_use(tenant bigint, resource_name text, object_key text) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
    next_resource text COLLATE "C" := '';
BEGIN
    IF resource_name <> 'namespaces' THEN
        RETURN EXISTS (SELECT 1 FROM objects o WHERE o.tenant_id = tenant AND o.resource = object_key);
    END IF;
    -- The resources of a tenant are few, its objects many: from one resource to the next.
    LOOP
        SELECT min(o.resource) INTO next_resource FROM objects o
        WHERE o.tenant_id = tenant AND o.resource > next_resource;
        IF next_resource IS NULL THEN
            RETURN false;
        END IF;
        -- "0" is the character after "/".
        IF next_resource <> 'events' AND EXISTS (
            SELECT 1 FROM objects o
            WHERE o.tenant_id = tenant AND o.resource = next_resource
                AND o.key > object_key || '/' AND o.key < object_key || '0'
                AND (next_resource, o.key) NOT IN (
                    ('configmaps', object_key || '/kube-root-ca.crt'), ('serviceaccounts', object_key || '/default'))
        ) THEN
            RETURN true;
        END IF;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION registry_provides(tenant_name text) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT c.name FROM tenants p JOIN api_bindings b ON b.provider_id = p.id AND b.until IS NULL
    JOIN tenants c ON c.id = b.tenant_id AND c.deleted_at IS NULL
    WHERE p.name = tenant_name AND c.id <> p.id LIMIT 1
$$;

CREATE OR REPLACE FUNCTION registry_refusals(tenant_ids bigint[], operations text[], resources text[], keys text[], bodies text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[]) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    refusals text[] := array_fill(NULL::text, ARRAY[cardinality(keys)]);
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
        SELECT u.ordinal, u.tenant_id, u.operation, u.guard_flag,
            octet_length(u.body) - coalesce(octet_length(o.body), 0) AS growth,
            t.objects, t.bytes, t.definitions, t.namespaces,
            t.max_objects, t.max_bytes, t.max_definitions, t.max_namespaces
        FROM unnest(
            tenant_ids, operations, resources, keys, bodies, expected_revisions, expected_definitions,
            expected_namespaces, guard_flags
        ) WITH ORDINALITY AS u (
            tenant_id, operation, resource, key, body, expected_revision, expected_definition, expected_namespace,
            guard_flag, ordinal
        )
        JOIN tenants t ON t.id = u.tenant_id
        LEFT JOIN objects o ON o.tenant_id = u.tenant_id AND o.resource = u.resource AND o.key = u.key
        WHERE (u.operation = 'create') = (o.revision IS NULL)
            AND coalesce(u.expected_revision = o.revision, true)
            AND coalesce(u.expected_definition = t.definitions_revision, true)
            AND coalesce(u.expected_namespace = t.namespaces_revision, true)
        ORDER BY u.tenant_id, u.ordinal
    LOOP
        IF w.tenant_id IS DISTINCT FROM present THEN
            present := w.tenant_id;
            n_objects := w.objects;
            n_bytes := w.bytes;
            n_definitions := w.definitions;
            n_namespaces := w.namespaces;
        END IF;
        refusal := CASE
            WHEN w.guard_flag & 32 <> 0 THEN NULL
            WHEN w.operation = 'create' AND n_objects + 1 > w.max_objects
                THEN concat_ws(' ', 'objects', 1, n_objects, w.max_objects)
            WHEN w.operation = 'create' AND w.guard_flag & 8 <> 0 AND n_definitions + 1 > w.max_definitions
                THEN concat_ws(' ', 'definitions', 1, n_definitions, w.max_definitions)
            WHEN w.operation = 'create' AND w.guard_flag & 16 <> 0 AND n_namespaces + 1 > w.max_namespaces
                THEN concat_ws(' ', 'namespaces', 1, n_namespaces, w.max_namespaces)
            WHEN w.growth > 0 AND n_bytes + w.growth > w.max_bytes
                THEN concat_ws(' ', 'bytes', w.growth, n_bytes, w.max_bytes)
        END;
        IF refusal IS NOT NULL THEN
            refusals[w.ordinal] := refusal;
            CONTINUE;
        END IF;
        step := CASE w.operation WHEN 'create' THEN 1 WHEN 'delete' THEN -1 ELSE 0 END;
        n_objects := n_objects + step;
        n_bytes := n_bytes + w.growth;
        n_definitions := n_definitions + CASE WHEN w.guard_flag & 8 <> 0 THEN step ELSE 0 END;
        n_namespaces := n_namespaces + CASE WHEN w.guard_flag & 16 <> 0 THEN step ELSE 0 END;
    END LOOP;
    RETURN refusals;
END
$$;

CREATE OR REPLACE FUNCTION registry_share(me bigint, batch_id bigint, given_revision bigint, wanted jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    provider bigint;
    now_ timestamptz := clock_timestamp();
BEGIN
    IF wanted ->> 'kind' = 'binding' THEN
        UPDATE api_bindings b SET until = given_revision
        WHERE b.tenant_id = me AND b.binding = wanted ->> 'binding' AND b.until IS NULL
            AND (wanted ? 'ends' OR NOT wanted -> 'definitions' ? b.resource);
        SELECT t.id INTO provider FROM tenants t WHERE t.name = wanted ->> 'provider';
        INSERT INTO api_bindings (tenant_id, resource, since, provider_id, export, binding)
        SELECT me, d.key, given_revision, provider, wanted ->> 'export', wanted ->> 'binding'
        FROM jsonb_each(coalesce(wanted -> 'definitions', '{}'::jsonb)) d
        WHERE NOT EXISTS (
            SELECT 1 FROM api_bindings b WHERE b.tenant_id = me AND b.resource = d.key AND b.until IS NULL
        );
        RETURN;
    END IF;
    IF wanted ->> 'kind' <> 'definition' THEN
        RETURN;
    END IF;
    WITH bound AS MATERIALIZED (
        SELECT o.*, t.domain_id,
            d.revision + row_number() OVER (PARTITION BY t.domain_id ORDER BY b.tenant_id) AS new_revision
        FROM api_bindings b
        JOIN tenants t ON t.id = b.tenant_id AND t.deleted_at IS NULL
        JOIN domains d ON d.id = t.domain_id
        JOIN objects o ON o.tenant_id = b.tenant_id AND o.resource = 'apibindings.apis.registry' AND o.key = b.binding
        WHERE b.provider_id = me AND b.resource = wanted ->> 'name' AND b.until IS NULL
    ), touched AS (
        UPDATE objects o SET revision = b.new_revision, updated_at = now_
        FROM bound b WHERE o.tenant_id = b.tenant_id AND o.resource = b.resource AND o.key = b.key
    ), counted AS (
        UPDATE domains d SET revision = m.revision
        FROM (SELECT domain_id, max(new_revision) AS revision FROM bound GROUP BY domain_id) m
        WHERE d.id = m.domain_id
    ), guarded AS (
        UPDATE tenants t SET definitions_revision = b.new_revision FROM bound b WHERE t.id = b.tenant_id
    )
    INSERT INTO changes (
        domain_id, revision, batch, tenant_id, resource, key, uid, type, version, schema_id, body, labels,
        previous_revision, previous_version, previous_schema_id, previous_body, previous_labels,
        actor_user, actor_manager, actor_verb, at
    )
    SELECT b.domain_id, b.new_revision, batch_id, b.tenant_id, b.resource, b.key, b.uid, 'MODIFIED', b.version,
        b.schema_id, b.body, b.labels, b.revision, b.version, b.schema_id, b.body, b.labels,
        'system:apiserver', 'kube-apiserver', 'update', now_
    FROM bound b;
END
$$;

CREATE OR REPLACE FUNCTION registry_sharing_refusal(me bigint, wanted jsonb) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    provider bigint;
    found text;
    tenants_bound bigint;
BEGIN
    IF wanted ->> 'kind' = 'binding' THEN
        IF wanted ? 'ends' THEN
            RETURN NULL;
        END IF;
        SELECT t.id INTO provider FROM tenants t WHERE t.name = wanted ->> 'provider' AND t.deleted_at IS NULL;
        IF provider IS NULL OR NOT EXISTS (
            SELECT 1 FROM objects o WHERE o.tenant_id = provider AND o.resource = 'apiexports.apis.registry'
                AND o.key = wanted ->> 'export' AND o.revision = (wanted ->> 'revision')::bigint
        ) OR EXISTS (
            SELECT 1 FROM jsonb_each_text(wanted -> 'definitions') d
            LEFT JOIN objects o ON o.tenant_id = provider AND o.key = d.key
                AND o.resource = 'customresourcedefinitions.apiextensions.k8s.io'
            WHERE o.revision IS DISTINCT FROM d.value::bigint
        ) THEN
            RETURN 'moved';
        END IF;
        SELECT b.resource INTO found FROM api_bindings b
        WHERE b.tenant_id = me AND b.until IS NULL AND b.binding <> wanted ->> 'binding'
            AND wanted -> 'definitions' ? b.resource LIMIT 1;
        RETURN 'taken ' || found;
    END IF;
    SELECT count(DISTINCT b.tenant_id) INTO tenants_bound
    FROM api_bindings b JOIN tenants t ON t.id = b.tenant_id AND t.deleted_at IS NULL
    WHERE b.provider_id = me AND b.until IS NULL AND CASE wanted ->> 'kind'
        WHEN 'definition' THEN b.resource = wanted ->> 'name' AND (wanted ->> 'ending')::boolean
        ELSE b.export = wanted ->> 'export'
            AND ((wanted ->> 'ending')::boolean OR NOT wanted -> 'definitions' ? b.resource)
    END;
    IF tenants_bound > 0 THEN
        RETURN 'bound ' || tenants_bound;
    END IF;
    IF jsonb_array_length(coalesce(wanted -> 'removed', '[]'::jsonb)) > 0 THEN
        SELECT o.version INTO found FROM api_bindings b
        JOIN objects o ON o.tenant_id = b.tenant_id AND o.resource = b.resource AND wanted -> 'removed' ? o.version
        WHERE b.provider_id = me AND b.resource = wanted ->> 'name' AND b.until IS NULL LIMIT 1;
        RETURN 'stored ' || found;
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION registry_tenancy_refusal(wanted jsonb, made boolean) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(
        registry_tree_refusal(wanted, made),
        CASE wanted ->> 'life' WHEN 'ending' THEN 'provides ' || registry_provides(wanted ->> 'name') END
    )
$$;

CREATE OR REPLACE FUNCTION registry_tree_refusal(wanted jsonb, made boolean) RETURNS text
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    other text;
    above text := wanted ->> 'parent';
    depth integer := 0;
BEGIN
    IF wanted ->> 'life' = 'gone' THEN
        RETURN NULL;
    END IF;
    IF wanted ->> 'life' = 'ending' THEN
        SELECT name INTO other FROM tenants WHERE parent = wanted ->> 'name' AND deleted_at IS NULL LIMIT 1;
        RETURN 'children ' || other;
    END IF;
    IF made AND EXISTS (SELECT 1 FROM tenants WHERE name = wanted ->> 'name' AND deleted_at IS NOT NULL) THEN
        RETURN 'ending';
    END IF;
    IF above IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants WHERE name = above AND deleted_at IS NULL) THEN
        IF made OR EXISTS (SELECT 1 FROM tenants WHERE name = wanted ->> 'name' AND parent IS DISTINCT FROM above) THEN
            RETURN 'parent';
        END IF;
    END IF;
    WHILE above IS NOT NULL LOOP
        depth := depth + 1;
        IF above = wanted ->> 'name' THEN
            RETURN 'cycle';
        END IF;
        IF depth > 16 THEN
            RETURN 'depth';
        END IF;
        SELECT parent INTO above FROM tenants WHERE name = above;
        IF NOT FOUND THEN
            above := NULL;
        END IF;
    END LOOP;
    SELECT name INTO other FROM tenants
    WHERE sql_schema = wanted ->> 'sqlSchema' AND name <> wanted ->> 'name' AND deleted_at IS NULL LIMIT 1;
    RETURN 'schema ' || other;
END
$$;
