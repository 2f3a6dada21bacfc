-- For each write of a batch, in its order, the limit of its tenant that it would go beyond, or NULL: as
-- 'objects <asked for> <used> <limit>'. Called under the lock of the domains' counters; writes that fail for another
-- reason do not count.
CREATE FUNCTION registry_refusals(
    tenant_ids bigint[],
    operations text[],
    resources text[],
    keys text[],
    bodies text[],
    expected_revisions bigint[],
    expected_definitions bigint[],
    expected_namespaces bigint[],
    guard_flags bigint[]
) RETURNS text[] LANGUAGE plpgsql AS $function$
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
$function$;

-- Why a tenant may not become what `wanted` says, or NULL: 'parent', 'cycle', 'depth', 'schema <tenant>', 'ending',
-- 'children <one of them>'. Called under the lock of the domain in which tenants are objects, so that no two changes of
-- the tree are judged side by side.
CREATE FUNCTION registry_tenancy_refusal(wanted jsonb, made boolean) RETURNS text LANGUAGE plpgsql STABLE AS $function$
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
$function$;

-- Makes the row of a tenant what `wanted` says:
--     {"name": "acme", "life": "living", "parent": null, "domain": null, "suspended": false, "sqlSchema": null,
--      "limits": {"objects": 1000}, "attributes": {..}}
-- `life` is 'living', 'ending' (hidden at once, its objects are to be removed) or 'gone'. `domain` counts for a new
-- tenant only. What the server itself keeps in the attributes, under "server", stays.
CREATE FUNCTION registry_follow(wanted jsonb) RETURNS void LANGUAGE plpgsql AS $function$
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
$function$;

-- Commits the write of an object that is a tenant, and changes the tenant's row with it. One write; its arguments and
-- result are those of registry_commit, and one outcome more: 'tenancy', with the reason as refusal.
--
-- The domain of that tenant is locked too: a write of its own is from before the change, or is judged by it.
CREATE FUNCTION registry_commit_tenant(
    batch_id bigint,
    tenant_ids bigint[],
    domain_ids bigint[],
    operations text[],
    resources text[],
    keys text[],
    uids text[],
    versions text[],
    schema_ids bigint[],
    bodies text[],
    labels_lists text[],
    owners_lists text[],
    docs text[],
    expected_revisions bigint[],
    expected_definitions bigint[],
    expected_namespaces bigint[],
    guard_flags bigint[],
    actor_users text[],
    actor_managers text[],
    actor_verbs text[],
    room bigint,
    exact boolean,
    wanted jsonb
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
) LANGUAGE plpgsql AS $function$
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
$function$;
