-- Why a tenant may not become what `wanted` describes, or NULL: 'parent', 'cycle', 'depth', 'schema <tenant>',
-- 'ending', 'removing', 'children <one of them>'. Called while the domain in which tenants are objects is locked, so
-- that no two changes of the tree are validated concurrently.
CREATE OR REPLACE FUNCTION registry_tree_refusal(wanted jsonb, made boolean) RETURNS text LANGUAGE plpgsql STABLE AS $function$
DECLARE
    other text;
    above text := wanted ->> 'parent';
    depth integer := 0;
    returns boolean := coalesce((wanted ->> 'undelete')::boolean, false);
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
    -- A minute early, so that its removal cannot begin before this transaction ends.
    IF returns AND NOT EXISTS (
        SELECT 1 FROM tenants WHERE name = wanted ->> 'name' AND deleted_at > clock_timestamp() + interval '1 minute'
    ) THEN
        RETURN 'removing';
    END IF;
    IF above IS NOT NULL AND NOT EXISTS (SELECT 1 FROM tenants WHERE name = above AND deleted_at IS NULL) THEN
        IF made OR returns OR EXISTS (SELECT 1 FROM tenants WHERE name = wanted ->> 'name' AND parent IS DISTINCT FROM above) THEN
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

-- A tenant whose definitions others have bound cannot be deleted.
CREATE OR REPLACE FUNCTION registry_provides(tenant_name text) RETURNS text LANGUAGE sql STABLE AS $function$
    SELECT c.name FROM tenants p JOIN api_bindings b ON b.provider_id = ANY (ARRAY[p.id]) AND b.until + 0 IS NULL
    JOIN tenants c ON c.id = ANY (ARRAY[b.tenant_id]) AND c.deleted_at IS NULL
    WHERE p.name = tenant_name AND c.id <> p.id LIMIT 1
$function$;

CREATE OR REPLACE FUNCTION registry_tenancy_refusal(wanted jsonb, made boolean) RETURNS text LANGUAGE sql STABLE AS $function$
    SELECT coalesce(
        registry_tree_refusal(wanted, made),
        CASE wanted ->> 'life' WHEN 'ending' THEN 'provides ' || registry_provides(wanted ->> 'name') END
    )
$function$;

-- Creates, updates or deletes the row of a tenant, as `wanted` describes it:
--     {"name": "acme", "life": "living", "parent": null, "domain": null, "suspended": false, "sqlSchema": null,
--      "limits": {"objects": 1000}, "attributes": {..}}
-- `life` is 'living', 'ending' (hidden at once, its objects are removed after `keptSeconds`) or 'gone'. `undelete`
-- restores an ending tenant. `domain` applies to a new tenant only. State of the server in the attributes, under
-- "server", stays.
CREATE OR REPLACE FUNCTION registry_follow(wanted jsonb) RETURNS void LANGUAGE plpgsql AS $function$
DECLARE
    domain bigint;
    limits jsonb := coalesce(wanted -> 'limits', '{}'::jsonb);
BEGIN
    IF wanted ->> 'life' = 'gone' THEN
        RETURN;
    END IF;
    IF wanted ->> 'life' = 'ending' THEN
        -- `deleted_at` is when the removal begins; a second deletion may bring it forward.
        UPDATE tenants SET deleted_at = least(
            deleted_at, now() + coalesce((wanted ->> 'keptSeconds')::bigint, 0) * interval '1 second'
        ) WHERE name = wanted ->> 'name';
        RETURN;
    END IF;
    UPDATE tenants t
    SET parent = wanted ->> 'parent', suspended = coalesce((wanted ->> 'suspended')::boolean, false),
        sql_schema = wanted ->> 'sqlSchema',
        max_objects = (limits ->> 'objects')::bigint, max_bytes = (limits ->> 'bytes')::bigint,
        max_definitions = (limits ->> 'definitions')::bigint, max_namespaces = (limits ->> 'namespaces')::bigint,
        attributes = coalesce(wanted -> 'attributes', '{}'::jsonb)
            || jsonb_strip_nulls(jsonb_build_object('server', t.attributes -> 'server')),
        deleted_at = CASE WHEN (wanted ->> 'undelete')::boolean THEN NULL ELSE t.deleted_at END
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

-- Commits one write of an object that is a tenant, and changes the row of the tenant with it. Arguments and result are
-- those of registry_commit, with one more outcome: 'tenancy', with the reason as refusal.
--
-- The domain of that tenant is locked, too, so that its own writes commit before the change or are validated against
-- it.
CREATE OR REPLACE FUNCTION registry_commit_tenant(
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
    why text;
BEGIN
    PERFORM 1 FROM domains d
    WHERE d.id = ANY (ARRAY[
        writes[1].domain_id,
        (SELECT n.id FROM domains n WHERE n.name = wanted ->> 'domain'),
        (SELECT t.domain_id FROM tenants t WHERE t.name = wanted ->> 'name')
    ])
    ORDER BY d.id FOR UPDATE;
    why := registry_tenancy_refusal(wanted, writes[1].operation = 'create');
    IF why IS NOT NULL THEN
        RETURN QUERY SELECT 1::bigint, 'tenancy'::text, NULL::bigint, NULL::bigint, NULL::bigint, NULL::text,
            NULL::bigint, NULL::text, NULL::bigint, NULL::text, why;
        RETURN;
    END IF;
    RETURN QUERY SELECT c.* FROM registry_commit(batch_id, writes, room, exact) c;
    -- This transaction assigned a revision to the object, or the write was refused.
    IF EXISTS (SELECT 1 FROM changes c WHERE c.tenant_id = writes[1].tenant_id AND c.resource = writes[1].resource
            AND c.key = writes[1].key AND c.batch = batch_id) THEN
        PERFORM registry_follow(wanted);
    END IF;
END
$function$;
