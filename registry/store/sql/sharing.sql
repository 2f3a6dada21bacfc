-- Why a write that shares definitions, or changes what is shared, is refused; NULL if it is not. `wanted` is one of
--     {"kind": "binding", "binding": "b", "provider": "acme", "export": "e", "definitions": ["widgets.example.com"],
--      "seen": [["<resource of definitions>", "widgets.example.com", 17], ["<resource of exports>", "e", 12]]}
--                                a binding, as of these revisions of the provider's objects
--     {"kind": "binding", "binding": "b", "ends": true}
--     {"kind": "definition", "name": "widgets.example.com", "ending": false, "removed": ["v1alpha1"],
--      "bindings": "<resource of bindings>", "actor": "<user>", "manager": "<manager>"}     who updates the bindings
--     {"kind": "export", "export": "e", "definitions": ["widgets.example.com"], "ending": false}
-- The result is 'moved', 'taken <resource>', 'bound <number of tenants>' or 'stored <version>'. Called while the
-- domains of all tenants involved are locked.
CREATE OR REPLACE FUNCTION registry_sharing_refusal(me bigint, wanted jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $function$
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
        IF provider IS NULL OR EXISTS (
            SELECT 1 FROM jsonb_array_elements(wanted -> 'seen') s
            LEFT JOIN LATERAL (
                SELECT o.revision FROM objects o
                WHERE o.tenant_id = provider AND o.resource = s ->> 0 AND o.key = s ->> 1 OFFSET 0
            ) o ON true
            WHERE o.revision IS DISTINCT FROM (s ->> 2)::bigint
        ) THEN
            RETURN 'moved';
        END IF;
        SELECT b.resource INTO found FROM api_bindings b
        WHERE b.tenant_id = me AND b.until IS NULL AND b.binding <> wanted ->> 'binding'
            AND wanted -> 'definitions' ? b.resource LIMIT 1;
        RETURN 'taken ' || found;
    END IF;
    SELECT count(DISTINCT b.tenant_id) INTO tenants_bound
    FROM api_bindings b JOIN tenants t ON t.id = ANY (ARRAY[b.tenant_id]) AND t.deleted_at IS NULL
    WHERE b.provider_id = me AND b.until + 0 IS NULL AND CASE wanted ->> 'kind'
        WHEN 'definition' THEN b.resource = wanted ->> 'name' AND (wanted ->> 'ending')::boolean
        ELSE b.export = wanted ->> 'export'
            AND ((wanted ->> 'ending')::boolean OR NOT wanted -> 'definitions' ? b.resource)
    END;
    IF tenants_bound > 0 THEN
        RETURN 'bound ' || tenants_bound;
    END IF;
    IF jsonb_array_length(coalesce(wanted -> 'removed', '[]'::jsonb)) > 0 THEN
        SELECT o.version INTO found FROM api_bindings b
        JOIN objects o ON o.tenant_id = ANY (ARRAY[b.tenant_id]) AND o.resource = b.resource AND wanted -> 'removed' ? o.version
        WHERE b.provider_id = me AND b.resource = wanted ->> 'name' AND b.until + 0 IS NULL LIMIT 1;
        RETURN 'stored ' || found;
    END IF;
    RETURN NULL;
END
$function$;

-- Applies the effects of a write, committed at `revision`, to the tenants that share. A change of a definition is a
-- change of each binding to it: the binding gets a new revision, which advances the definitions guard of its tenant, so
-- that no write validated under the old definition is accepted after this commit.
CREATE OR REPLACE FUNCTION registry_share(me bigint, batch_id bigint, given_revision bigint, wanted jsonb) RETURNS void LANGUAGE plpgsql
AS $function$
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
        SELECT me, d.name, given_revision, provider, wanted ->> 'export', wanted ->> 'binding'
        FROM jsonb_array_elements_text(coalesce(wanted -> 'definitions', '[]'::jsonb)) d (name)
        WHERE NOT EXISTS (
            SELECT 1 FROM api_bindings b WHERE b.tenant_id = me AND b.resource = d.name AND b.until IS NULL
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
        JOIN tenants t ON t.id = ANY (ARRAY[b.tenant_id]) AND t.deleted_at IS NULL
        JOIN domains d ON d.id = ANY (ARRAY[t.domain_id])
        CROSS JOIN LATERAL (
            SELECT o.* FROM objects o
            WHERE o.tenant_id = b.tenant_id AND o.resource = wanted ->> 'bindings' AND o.key = b.binding OFFSET 0
        ) o
        WHERE b.provider_id = me AND b.resource = wanted ->> 'name' AND b.until + 0 IS NULL
    ), touched AS (
        UPDATE objects o SET revision = b.new_revision, updated_at = now_
        FROM bound b WHERE o.tenant_id = ANY (ARRAY[b.tenant_id]) AND o.resource = b.resource AND o.key = b.key
    ), counted AS (
        UPDATE domains d SET revision = m.revision
        FROM (SELECT domain_id, max(new_revision) AS revision FROM bound GROUP BY domain_id) m
        WHERE d.id = ANY (ARRAY[m.domain_id])
    ), guarded AS (
        UPDATE tenants t SET definitions_revision = b.new_revision FROM bound b WHERE t.id = ANY (ARRAY[b.tenant_id])
    )
    INSERT INTO changes (
        domain_id, revision, batch, tenant_id, resource, key, uid, type, version, schema_id, body, labels,
        previous_revision, previous_version, previous_schema_id, previous_body, previous_labels,
        actor_user, actor_manager, actor_verb, at, follow_up
    )
    SELECT b.domain_id, b.new_revision, batch_id, b.tenant_id, b.resource, b.key, b.uid, 'MODIFIED', b.version,
        b.schema_id, b.body, b.labels, b.revision, b.version, b.schema_id, b.body, b.labels,
        wanted ->> 'actor', wanted ->> 'manager', 'update', now_, b.owners IS NOT NULL
    FROM bound b;
END
$function$;

-- Commits one write of a definition, an export or a binding, with its effects on the tenants that share. Arguments and
-- result are those of registry_commit, with one more outcome: 'sharing', with the reason as refusal.
--
-- The domains of all tenants involved are locked first, in order. A tenant that binds locks its provider's domain, too.
-- If a tenant has been added between the read and the lock, the second read finds it, and the call is repeated.
CREATE OR REPLACE FUNCTION registry_commit_shared(
    batch_id bigint,
    writes registry_write[],
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
    needed bigint[];
    why text;
    at_revision bigint;
BEGIN
    SELECT array_agg(DISTINCT n.domain_id) INTO needed FROM (
        SELECT writes[1].domain_id
        UNION ALL
        SELECT t.domain_id FROM tenants t WHERE t.name = wanted ->> 'provider'
        UNION ALL
        SELECT t.domain_id FROM api_bindings b JOIN tenants t ON t.id = ANY (ARRAY[b.tenant_id])
        WHERE b.provider_id = writes[1].tenant_id AND b.until + 0 IS NULL
    ) n;
    PERFORM 1 FROM domains d WHERE d.id = ANY (needed) ORDER BY d.id FOR UPDATE;
    IF EXISTS (
        SELECT 1 FROM api_bindings b JOIN tenants t ON t.id = ANY (ARRAY[b.tenant_id])
        WHERE b.provider_id = writes[1].tenant_id AND b.until + 0 IS NULL AND t.domain_id <> ALL (needed)
    ) THEN
        RAISE EXCEPTION 'a tenant has bound meanwhile' USING ERRCODE = 'serialization_failure';
    END IF;
    why := registry_sharing_refusal(writes[1].tenant_id, wanted);
    IF why IS NOT NULL THEN
        RETURN QUERY SELECT 1::bigint, 'sharing'::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
            NULL::bigint, NULL::text, NULL::bigint, NULL::text, why;
        RETURN;
    END IF;
    RETURN QUERY SELECT c.* FROM registry_commit(batch_id, writes, room, exact) c;
    -- This transaction assigned a revision to the object, or the write was refused.
    SELECT c.revision INTO at_revision FROM changes c
    WHERE c.tenant_id = writes[1].tenant_id AND c.resource = writes[1].resource AND c.key = writes[1].key
        AND c.batch = batch_id;
    IF FOUND THEN
        PERFORM registry_share(writes[1].tenant_id, batch_id, at_revision, wanted);
    END IF;
END
$function$;
