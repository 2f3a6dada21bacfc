-- pg_dump --schema-only of a database that went through the revisions 0001 to 0013 one by one, before they were squashed.
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;

CREATE FUNCTION public.registry_commit(batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[], uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[], docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean) RETURNS TABLE(write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text, found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text)
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

CREATE FUNCTION public.registry_commit_shared(batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[], uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[], docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean, wanted jsonb) RETURNS TABLE(write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text, found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text)
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

CREATE FUNCTION public.registry_commit_tenant(batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[], uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[], docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean, wanted jsonb) RETURNS TABLE(write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text, found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text)
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

CREATE FUNCTION public.registry_follow(wanted jsonb) RETURNS void
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

CREATE FUNCTION public.registry_in_use(tenant bigint, resource_name text, object_key text) RETURNS boolean
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

CREATE FUNCTION public.registry_provides(tenant_name text) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT c.name FROM tenants p JOIN api_bindings b ON b.provider_id = p.id AND b.until IS NULL
    JOIN tenants c ON c.id = b.tenant_id AND c.deleted_at IS NULL
    WHERE p.name = tenant_name AND c.id <> p.id LIMIT 1
$$;

CREATE FUNCTION public.registry_refusals(tenant_ids bigint[], operations text[], resources text[], keys text[], bodies text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[]) RETURNS text[]
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

CREATE FUNCTION public.registry_share(me bigint, batch_id bigint, given_revision bigint, wanted jsonb) RETURNS void
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

CREATE FUNCTION public.registry_sharing_refusal(me bigint, wanted jsonb) RETURNS text
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

CREATE FUNCTION public.registry_tenancy_refusal(wanted jsonb, made boolean) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(
        registry_tree_refusal(wanted, made),
        CASE wanted ->> 'life' WHEN 'ending' THEN 'provides ' || registry_provides(wanted ->> 'name') END
    )
$$;

CREATE FUNCTION public.registry_tree_refusal(wanted jsonb, made boolean) RETURNS text
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

CREATE FUNCTION public.report_bound() RETURNS TABLE(tenant_id bigint, resource text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN QUERY SELECT b.tenant_id, b.resource
        FROM report_logins l
            JOIN tenants p ON p.id = l.provider_id AND p.deleted_at IS NULL
            JOIN api_bindings b ON b.provider_id = p.id AND b.until IS NULL
            JOIN tenants t ON t.id = b.tenant_id AND t.deleted_at IS NULL
        WHERE l.name = session_user::text;
END
$$;

CREATE FUNCTION public.report_bound_since(tenant bigint, definition text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN (SELECT b.since FROM api_bindings b
            JOIN report_logins l ON l.provider_id = b.provider_id AND l.name = session_user::text
        WHERE b.tenant_id = tenant AND b.resource = definition AND b.until IS NULL);
END
$$;

CREATE FUNCTION public.report_date(value text) RETURNS date
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $_$
DECLARE
    year int;
    month int;
    day int;
    longest int;
BEGIN
    IF value !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' THEN
        RETURN NULL;
    END IF;
    year := substr(value, 1, 4)::int;
    month := substr(value, 6, 2)::int;
    day := substr(value, 9, 2)::int;
    longest := CASE
        WHEN month IN (4, 6, 9, 11) THEN 30
        WHEN month <> 2 THEN 31
        WHEN mod(year, 4) = 0 AND (mod(year, 100) <> 0 OR mod(year, 400) = 0) THEN 29
        ELSE 28
    END;
    IF year < 1 OR month NOT BETWEEN 1 AND 12 OR day < 1 OR day > longest THEN
        RETURN NULL;
    END IF;
    RETURN make_date(year, month, day);
END
$_$;

CREATE FUNCTION public.report_document(body text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
BEGIN
    IF left(body, 1) <> '"' THEN
        RETURN NULL;    -- sealed
    END IF;
    IF strpos(body, '\u0000') > 0 THEN
        body := regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g');
    END IF;
    RETURN ('{"metadata":{' || body)::jsonb #- '{metadata,managedFields}';
END
$$;

CREATE FUNCTION public.report_float(value jsonb) RETURNS double precision
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
DECLARE
    number numeric;
BEGIN
    IF jsonb_typeof(value) <> 'number' THEN
        RETURN NULL;
    END IF;
    number := value::numeric;
    IF abs(number) > 1.7976931348623157e308 THEN
        RETURN NULL;
    END IF;
    IF number <> 0 AND abs(number) < 5e-324 THEN
        RETURN 0;
    END IF;
    RETURN number::double precision;
END
$$;

CREATE FUNCTION public.report_int(value jsonb) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
DECLARE
    number numeric;
BEGIN
    IF jsonb_typeof(value) <> 'number' THEN
        RETURN NULL;
    END IF;
    number := value::numeric;
    IF number < -9223372036854775808 OR number > 9223372036854775807 OR number <> trunc(number) THEN
        RETURN NULL;
    END IF;
    RETURN number::bigint;
END
$$;

CREATE FUNCTION public.report_ready(document jsonb, field text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
DECLARE
    conditions jsonb := document #> '{status,conditions}';
    condition jsonb;
    found text;
BEGIN
    IF conditions IS NULL OR jsonb_typeof(conditions) <> 'array' THEN
        RETURN NULL;
    END IF;
    FOR condition IN SELECT jsonb_array_elements(conditions) LOOP
        IF condition ->> 'type' = 'Ready' THEN
            RETURN condition ->> field;
        ELSIF condition ->> 'type' = 'Available' THEN
            found := condition ->> field;
        END IF;
    END LOOP;
    RETURN found;
END
$$;

CREATE FUNCTION public.report_sees_all() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    login report_logins;
BEGIN
    SELECT * INTO login FROM report_logins l WHERE l.name = session_user::text;
    IF FOUND THEN
        RETURN login.across AND login.tenant_ids IS NULL;
    END IF;
    RETURN pg_has_role(session_user, current_user, 'MEMBER');
END
$$;

CREATE FUNCTION public.report_tenant() RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    login report_logins;
BEGIN
    SELECT * INTO login FROM report_logins l WHERE l.name = session_user::text;
    IF FOUND THEN
        RETURN (SELECT t.id FROM tenants t
            WHERE NOT login.across AND t.id = login.tenant_ids[1] AND t.deleted_at IS NULL);
    ELSIF pg_has_role(session_user, current_user, 'MEMBER') THEN
        RETURN (SELECT t.id FROM tenants t
            WHERE t.name = current_setting('registry.tenant', true) AND t.deleted_at IS NULL);
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.report_tenants_seen() RETURNS bigint[]
    LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN (SELECT l.tenant_ids FROM report_logins l WHERE l.name = session_user::text AND l.across);
END
$$;

CREATE FUNCTION public.report_time(value text) RETURNS timestamp with time zone
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $_$
BEGIN
    IF value !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,12})?([Zz]|[+-](0[0-9]|1[0-5]):[0-5][0-9])$'
        OR public.report_date(substr(value, 1, 10)) IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN value::timestamptz;
END
$_$;

CREATE FUNCTION public.report_without(document jsonb, path text[]) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
DECLARE
    value jsonb := document;
BEGIN
    FOR depth IN 1 .. cardinality(path) LOOP
        IF value IS NULL OR jsonb_typeof(value) = 'null' THEN
            RETURN document;
        ELSIF jsonb_typeof(value) <> 'object' THEN
            RETURN document #- path[1:depth - 1];
        END IF;
        value := value -> path[depth];
    END LOOP;
    RETURN document #- path;
END
$$;

CREATE FUNCTION public.report_without(document jsonb, paths jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$
    DECLARE
        path jsonb;
    BEGIN
        FOR path IN SELECT jsonb_array_elements(paths) LOOP
            document := public.report_without(document, ARRAY(SELECT jsonb_array_elements_text(path)));
        END LOOP;
        RETURN document;
    END
    $$;

CREATE TABLE public.access_tokens (
    tenant_id bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    user_name text NOT NULL,
    groups text[] NOT NULL,
    description text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone
);

CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE public.api_bindings (
    tenant_id bigint NOT NULL,
    resource text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    until bigint,
    provider_id bigint NOT NULL,
    export text NOT NULL COLLATE pg_catalog."C",
    binding text NOT NULL COLLATE pg_catalog."C"
);

CREATE TABLE public.audit_events (
    at timestamp with time zone NOT NULL,
    tenant text,
    username text NOT NULL,
    verb text NOT NULL,
    resource text NOT NULL,
    namespace text,
    name text,
    code integer,
    event jsonb NOT NULL
);

CREATE TABLE public.changes (
    domain_id bigint NOT NULL,
    revision bigint NOT NULL,
    batch bigint NOT NULL,
    tenant_id bigint NOT NULL,
    resource text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    uid text NOT NULL COLLATE pg_catalog."C",
    type text NOT NULL COLLATE pg_catalog."C",
    version text NOT NULL COLLATE pg_catalog."C",
    schema_id bigint NOT NULL,
    body text,
    labels text[] COLLATE pg_catalog."C",
    previous_revision bigint,
    previous_version text COLLATE pg_catalog."C",
    previous_schema_id bigint,
    previous_body text,
    previous_labels text[] COLLATE pg_catalog."C",
    actor_user text NOT NULL,
    actor_manager text NOT NULL,
    actor_verb text NOT NULL,
    at timestamp with time zone NOT NULL
)
PARTITION BY RANGE (at);

CREATE TABLE public.domains (
    id bigint NOT NULL,
    revision bigint DEFAULT 0 NOT NULL,
    floor bigint DEFAULT 0 NOT NULL,
    name text COLLATE pg_catalog."C"
)
WITH (fillfactor='10');

ALTER TABLE public.domains ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.domains_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.leaders (
    name text NOT NULL COLLATE pg_catalog."C",
    holder text NOT NULL,
    expires_at timestamp with time zone NOT NULL
)
WITH (fillfactor='10');

CREATE TABLE public.objects (
    tenant_id bigint NOT NULL,
    resource text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    uid text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    version text NOT NULL COLLATE pg_catalog."C",
    schema_id bigint NOT NULL,
    body text NOT NULL,
    labels text[] COLLATE pg_catalog."C",
    owners text[] COLLATE pg_catalog."C",
    doc jsonb,
    pending boolean DEFAULT false NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    facet_any boolean GENERATED ALWAYS AS (((doc #>> '{metadata,facets,any}'::text[]))::boolean) STORED,
    facet_text1 text GENERATED ALWAYS AS ((doc #>> '{metadata,facets,text1}'::text[])) STORED COLLATE pg_catalog."C",
    facet_text2 text GENERATED ALWAYS AS ((doc #>> '{metadata,facets,text2}'::text[])) STORED COLLATE pg_catalog."C",
    facet_text3 text GENERATED ALWAYS AS ((doc #>> '{metadata,facets,text3}'::text[])) STORED COLLATE pg_catalog."C",
    facet_int1 bigint GENERATED ALWAYS AS (((doc #>> '{metadata,facets,int1}'::text[]))::bigint) STORED,
    facet_int2 bigint GENERATED ALWAYS AS (((doc #>> '{metadata,facets,int2}'::text[]))::bigint) STORED,
    facet_float1 double precision GENERATED ALWAYS AS (((doc #>> '{metadata,facets,float1}'::text[]))::double precision) STORED,
    facet_time1 timestamp with time zone GENERATED ALWAYS AS (to_timestamp(((doc #>> '{metadata,facets,time1}'::text[]))::double precision)) STORED,
    facet_ready boolean GENERATED ALWAYS AS (((doc #>> '{metadata,facets,ready}'::text[]))::boolean) STORED,
    facet_ready_since timestamp with time zone GENERATED ALWAYS AS (to_timestamp(((doc #>> '{metadata,facets,ready_since}'::text[]))::double precision)) STORED
)
WITH (fillfactor='80');
ALTER TABLE ONLY public.objects ALTER COLUMN labels SET STORAGE MAIN;
ALTER TABLE ONLY public.objects ALTER COLUMN owners SET STORAGE MAIN;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_text1 SET STATISTICS 0;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_text1 SET STORAGE MAIN;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_text2 SET STATISTICS 0;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_text2 SET STORAGE MAIN;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_text3 SET STATISTICS 0;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_text3 SET STORAGE MAIN;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_int1 SET STATISTICS 0;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_int2 SET STATISTICS 0;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_float1 SET STATISTICS 0;
ALTER TABLE ONLY public.objects ALTER COLUMN facet_time1 SET STATISTICS 0;

CREATE TABLE public.report_definitions (
    tenant_id bigint NOT NULL,
    resource text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    version text NOT NULL COLLATE pg_catalog."C",
    view_id bigint,
    state text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL,
    short_name text COLLATE pg_catalog."C",
    facets jsonb DEFAULT '{}'::jsonb NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE public.report_logins (
    name text NOT NULL COLLATE pg_catalog."C",
    across boolean NOT NULL,
    tenant_ids bigint[],
    timeout_seconds bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    provider_id bigint
);

CREATE TABLE public.report_schemas (
    name text NOT NULL COLLATE pg_catalog."C",
    tenant_id bigint
);

CREATE TABLE public.report_tenants (
    tenant_id bigint NOT NULL,
    definitions_revision bigint NOT NULL
);

CREATE SEQUENCE public.report_tenants_tenant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE public.report_tenants_tenant_id_seq OWNED BY public.report_tenants.tenant_id;

CREATE TABLE public.report_views (
    id bigint NOT NULL,
    resource text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    digests text[] NOT NULL COLLATE pg_catalog."C",
    shape jsonb NOT NULL,
    relations bigint NOT NULL,
    last_tenant_id bigint NOT NULL,
    empty_since timestamp with time zone
);

ALTER TABLE public.report_views ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.report_views_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenants (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    domain_id bigint NOT NULL,
    definitions_revision bigint DEFAULT 0 NOT NULL,
    namespaces_revision bigint DEFAULT 0 NOT NULL,
    attributes jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    parent text COLLATE pg_catalog."C",
    sql_schema text COLLATE pg_catalog."C",
    suspended boolean DEFAULT false NOT NULL,
    objects bigint DEFAULT 0 NOT NULL,
    bytes bigint DEFAULT 0 NOT NULL,
    definitions bigint DEFAULT 0 NOT NULL,
    namespaces bigint DEFAULT 0 NOT NULL,
    max_objects bigint,
    max_bytes bigint,
    max_definitions bigint,
    max_namespaces bigint
)
WITH (fillfactor='50');

CREATE VIEW public.resource_history AS
 SELECT t.name AS tenant,
    c.resource,
        CASE
            WHEN (strpos(c.key, '/'::text) > 0) THEN split_part(c.key, '/'::text, 1)
            ELSE NULL::text
        END AS namespace,
    split_part(c.key, '/'::text, '-1'::integer) AS name,
    c.uid,
    c.revision,
    c.type,
    c.actor_user,
    c.actor_manager,
    c.actor_verb,
    c.at,
    (((('{"metadata":{"resourceVersion":"'::text || c.revision) || '",'::text) || c.body))::json AS object,
    (((('{"metadata":{"resourceVersion":"'::text || c.previous_revision) || '",'::text) || c.previous_body))::json AS previous
   FROM (public.changes c
     JOIN public.tenants t ON ((t.id = c.tenant_id)))
  WHERE (t.deleted_at IS NULL);

COMMENT ON VIEW public.resource_history IS 'Every change within the retention time, and the state before it.';

CREATE VIEW public.resources AS
 SELECT t.name AS tenant,
    o.resource,
        CASE
            WHEN (strpos(o.key, '/'::text) > 0) THEN split_part(o.key, '/'::text, 1)
            ELSE NULL::text
        END AS namespace,
    split_part(o.key, '/'::text, '-1'::integer) AS name,
    o.uid,
    o.revision,
    o.version,
    o.created_at,
    o.updated_at,
    (((('{"metadata":{"resourceVersion":"'::text || o.revision) || '",'::text) || o.body))::json AS object
   FROM (public.objects o
     JOIN public.tenants t ON ((t.id = o.tenant_id)))
  WHERE (t.deleted_at IS NULL);

COMMENT ON VIEW public.resources IS 'Every object of every tenant as it is now.';

CREATE TABLE public.settings (
    name text NOT NULL COLLATE pg_catalog."C",
    value jsonb NOT NULL
);

CREATE TABLE public.signing_keys (
    id text NOT NULL COLLATE pg_catalog."C",
    secret bytea NOT NULL,
    signs_from timestamp with time zone NOT NULL,
    signs_until timestamp with time zone NOT NULL,
    verifies_until timestamp with time zone NOT NULL
);

CREATE TABLE public.tenant_keys (
    tenant_id bigint NOT NULL,
    number bigint NOT NULL,
    master text NOT NULL COLLATE pg_catalog."C",
    wrapped bytea NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE public.tenants ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.tenants_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE ONLY public.report_tenants ALTER COLUMN tenant_id SET DEFAULT nextval('public.report_tenants_tenant_id_seq'::regclass);

ALTER TABLE ONLY public.access_tokens
    ADD CONSTRAINT access_tokens_pkey PRIMARY KEY (tenant_id, id);

ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY public.api_bindings
    ADD CONSTRAINT api_bindings_pkey PRIMARY KEY (tenant_id, resource, since);

ALTER TABLE ONLY public.domains
    ADD CONSTRAINT domains_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.leaders
    ADD CONSTRAINT leaders_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.objects
    ADD CONSTRAINT objects_pkey PRIMARY KEY (tenant_id, resource, key);

ALTER TABLE ONLY public.report_definitions
    ADD CONSTRAINT report_definitions_pkey PRIMARY KEY (tenant_id, resource);

ALTER TABLE ONLY public.report_logins
    ADD CONSTRAINT report_logins_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.report_schemas
    ADD CONSTRAINT report_schemas_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.report_tenants
    ADD CONSTRAINT report_tenants_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY public.report_views
    ADD CONSTRAINT report_views_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.signing_keys
    ADD CONSTRAINT signing_keys_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.tenant_keys
    ADD CONSTRAINT tenant_keys_pkey PRIMARY KEY (tenant_id, number);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (id);

CREATE UNIQUE INDEX api_bindings_now_key ON public.api_bindings USING btree (tenant_id, resource) WHERE (until IS NULL);

CREATE INDEX api_bindings_provider_id_idx ON public.api_bindings USING btree (provider_id, resource);

CREATE INDEX audit_events_at_idx ON public.audit_events USING btree (at);

CREATE INDEX audit_events_tenant_resource_idx ON public.audit_events USING btree (tenant, resource, namespace, name, at);

CREATE INDEX changes_deleted_idx ON ONLY public.changes USING btree (tenant_id, resource, key, revision) WHERE (type = 'DELETED'::text);

CREATE INDEX changes_domain_id_revision_idx ON ONLY public.changes USING btree (domain_id, revision);

CREATE INDEX changes_tenant_id_resource_key_revision_idx ON ONLY public.changes USING btree (tenant_id, resource, key, revision);

CREATE UNIQUE INDEX domains_name_key ON public.domains USING btree (name) WHERE (name IS NOT NULL);

CREATE INDEX objects_facet_float1_idx ON public.objects USING btree (tenant_id, resource, facet_float1) WHERE facet_any;

CREATE INDEX objects_facet_int1_idx ON public.objects USING btree (tenant_id, resource, facet_int1) WHERE facet_any;

CREATE INDEX objects_facet_int2_idx ON public.objects USING btree (tenant_id, resource, facet_int2) WHERE facet_any;

CREATE INDEX objects_facet_ready_idx ON public.objects USING btree (tenant_id, resource, facet_ready, facet_ready_since) WHERE facet_any;

CREATE INDEX objects_facet_text1_idx ON public.objects USING btree (tenant_id, resource, facet_text1) WHERE facet_any;

CREATE INDEX objects_facet_text2_idx ON public.objects USING btree (tenant_id, resource, facet_text2) WHERE facet_any;

CREATE INDEX objects_facet_text3_idx ON public.objects USING btree (tenant_id, resource, facet_text3) WHERE facet_any;

CREATE INDEX objects_facet_time1_idx ON public.objects USING btree (tenant_id, resource, facet_time1) WHERE facet_any;

CREATE INDEX objects_labels_idx ON public.objects USING gin (labels) WITH (gin_pending_list_limit='512') WHERE (labels IS NOT NULL);

CREATE INDEX objects_owners_idx ON public.objects USING gin (owners) WHERE (owners IS NOT NULL);

CREATE INDEX objects_pending_idx ON public.objects USING btree (tenant_id, resource, key) WHERE pending;

CREATE INDEX objects_uid_idx ON public.objects USING btree (uid);

CREATE INDEX report_definitions_view_id_idx ON public.report_definitions USING btree (view_id, tenant_id);

CREATE INDEX report_schemas_tenant_id_idx ON public.report_schemas USING btree (tenant_id);

CREATE UNIQUE INDEX report_views_name_key ON public.report_views USING btree (name);

CREATE INDEX report_views_resource_idx ON public.report_views USING btree (resource);

CREATE INDEX tenants_deleted_at_idx ON public.tenants USING btree (deleted_at) WHERE (deleted_at IS NOT NULL);

CREATE INDEX tenants_domain_id_idx ON public.tenants USING btree (domain_id);

CREATE UNIQUE INDEX tenants_name_key ON public.tenants USING btree (name);

CREATE INDEX tenants_parent_idx ON public.tenants USING btree (parent) WHERE (parent IS NOT NULL);

CREATE INDEX tenants_sql_schema_idx ON public.tenants USING btree (sql_schema) WHERE (sql_schema IS NOT NULL);

INSERT INTO public.alembic_version VALUES ('0013');
