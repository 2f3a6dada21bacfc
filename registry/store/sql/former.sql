-- Functions that servers of the previous release (migration 0013) call while they are replaced by ours. Each has the
-- arguments of that release and calls the present function. The next release replaces this file.

CREATE OR REPLACE FUNCTION registry_former_writes(
    tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[], uids text[],
    versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[], docs text[],
    expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[], guard_flags bigint[],
    actor_users text[], actor_managers text[], actor_verbs text[]
) RETURNS registry_write[] LANGUAGE sql IMMUTABLE AS $function$
    -- Flag 64 of the previous release asks whether a definition or a namespace is in use; 1024 marks what it leaves unset
    -- (commit.sql). It maintains no declared indexes, so the indexes of what it writes are built again.
    SELECT array_agg((
        w.tenant_id, w.domain_id, w.schema_id, w.flags & ~64::bigint | 1024, w.expected_revision,
        w.expected_definition, w.expected_namespace, NULL, w.operation, w.resource, w.key, w.uid, w.version, w.body,
        w.actor_user, w.actor_manager, w.actor_verb, w.labels, w.owners, w.doc,
        CASE
            WHEN w.flags & 64 = 0 THEN NULL
            WHEN w.resource <> 'namespaces' THEN jsonb_build_object('resource', w.key)
            ELSE jsonb_build_object('prefix', w.key || '/', 'except', jsonb_build_object(
                'events', NULL, 'configmaps', jsonb_build_array(w.key || '/kube-root-ca.crt'),
                'serviceaccounts', jsonb_build_array(w.key || '/default')))
        END::text,
        NULL, NULL
    )::registry_write ORDER BY w.ordinality)
    FROM unnest(
        tenant_ids, domain_ids, operations, resources, keys, uids, versions, schema_ids, bodies, labels_lists,
        owners_lists, docs, expected_revisions, expected_definitions, expected_namespaces, guard_flags,
        actor_users, actor_managers, actor_verbs
    ) WITH ORDINALITY AS w (
        tenant_id, domain_id, operation, resource, key, uid, version, schema_id, body, labels, owners, doc,
        expected_revision, expected_definition, expected_namespace, flags, actor_user, actor_manager, actor_verb
    )
$function$;

CREATE OR REPLACE FUNCTION registry_commit(
    batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[],
    uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[],
    docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[],
    guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean
) RETURNS TABLE (
    write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text,
    found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text
) LANGUAGE sql AS $function$
    SELECT * FROM registry_commit(batch_id, registry_former_writes(
        tenant_ids, domain_ids, operations, resources, keys, uids, versions, schema_ids, bodies, labels_lists,
        owners_lists, docs, expected_revisions, expected_definitions, expected_namespaces, guard_flags, actor_users,
        actor_managers, actor_verbs
    ), room, exact)
$function$;

CREATE OR REPLACE FUNCTION registry_commit_tenant(
    batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[],
    uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[],
    docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[],
    guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean,
    wanted jsonb
) RETURNS TABLE (
    write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text,
    found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text
) LANGUAGE sql AS $function$
    SELECT * FROM registry_commit_tenant(batch_id, registry_former_writes(
        tenant_ids, domain_ids, operations, resources, keys, uids, versions, schema_ids, bodies, labels_lists,
        owners_lists, docs, expected_revisions, expected_definitions, expected_namespaces, guard_flags, actor_users,
        actor_managers, actor_verbs
    ), room, exact, wanted)
$function$;

-- `wanted` of the previous release has the definitions of a binding with their revisions, and no resources:
--     {"kind": "binding", "provider": "acme", "export": "e", "revision": 12, "definitions": {"widgets.example.com": 17}}
CREATE OR REPLACE FUNCTION registry_former_sharing(wanted jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $function$
    SELECT CASE
        WHEN wanted ->> 'kind' = 'definition' THEN wanted || jsonb_build_object(
            'bindings', 'apibindings.apis.registry', 'actor', 'system:apiserver', 'manager', 'kube-apiserver')
        WHEN wanted ->> 'kind' = 'binding' AND NOT wanted ? 'ends' THEN wanted || jsonb_build_object(
            'definitions', (SELECT coalesce(jsonb_agg(d.key), '[]') FROM jsonb_each(wanted -> 'definitions') d),
            'seen', (
                SELECT jsonb_build_array(jsonb_build_array('apiexports.apis.registry', wanted -> 'export', wanted -> 'revision'))
                    || coalesce(jsonb_agg(jsonb_build_array('customresourcedefinitions.apiextensions.k8s.io', d.key, d.value)), '[]')
                FROM jsonb_each(wanted -> 'definitions') d))
        ELSE wanted
    END
$function$;

CREATE OR REPLACE FUNCTION registry_commit_shared(
    batch_id bigint, tenant_ids bigint[], domain_ids bigint[], operations text[], resources text[], keys text[],
    uids text[], versions text[], schema_ids bigint[], bodies text[], labels_lists text[], owners_lists text[],
    docs text[], expected_revisions bigint[], expected_definitions bigint[], expected_namespaces bigint[],
    guard_flags bigint[], actor_users text[], actor_managers text[], actor_verbs text[], room bigint, exact boolean,
    wanted jsonb
) RETURNS TABLE (
    write_ordinal bigint, outcome text, given_revision bigint, definitions bigint, namespaces bigint, found_uid text,
    found_revision bigint, found_version text, found_schema_id bigint, found_body text, refusal text
) LANGUAGE sql AS $function$
    SELECT * FROM registry_commit_shared(batch_id, registry_former_writes(
        tenant_ids, domain_ids, operations, resources, keys, uids, versions, schema_ids, bodies, labels_lists,
        owners_lists, docs, expected_revisions, expected_definitions, expected_namespaces, guard_flags, actor_users,
        actor_managers, actor_verbs
    ), room, exact, registry_former_sharing(wanted))
$function$;

CREATE OR REPLACE FUNCTION registry_in_use(tenant bigint, resource_name text, object_key text) RETURNS boolean
LANGUAGE sql STABLE AS $function$
    SELECT registry_in_use(tenant, (registry_former_writes(
        ARRAY[tenant], '{0}', '{}', ARRAY[resource_name], ARRAY[object_key], '{}', '{}', '{}', '{}', '{}', '{}', '{}',
        '{}', '{}', '{}', '{64}', '{}', '{}', '{}'
    ))[1].unless_used::jsonb)
$function$;
