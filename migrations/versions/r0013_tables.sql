-- The tables, indexes and views as of revision 0013. What each is for stands in registry/store/tables.py; the functions
-- are in registry/store/sql.

CREATE TABLE domains (
    id bigint GENERATED ALWAYS AS IDENTITY,
    revision bigint NOT NULL DEFAULT 0,
    floor bigint NOT NULL DEFAULT 0,
    name text COLLATE "C",
    CONSTRAINT domains_pkey PRIMARY KEY (id)
) WITH (fillfactor = 10);
CREATE UNIQUE INDEX domains_name_key ON domains (name) WHERE name IS NOT NULL;

CREATE TABLE tenants (
    id bigint GENERATED ALWAYS AS IDENTITY,
    name text COLLATE "C" NOT NULL,
    domain_id bigint NOT NULL,
    definitions_revision bigint NOT NULL DEFAULT 0,
    namespaces_revision bigint NOT NULL DEFAULT 0,
    attributes jsonb NOT NULL DEFAULT '{}'::jsonb,
    created_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    parent text COLLATE "C",
    sql_schema text COLLATE "C",
    suspended boolean NOT NULL DEFAULT false,
    objects bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    definitions bigint NOT NULL DEFAULT 0,
    namespaces bigint NOT NULL DEFAULT 0,
    max_objects bigint,
    max_bytes bigint,
    max_definitions bigint,
    max_namespaces bigint,
    CONSTRAINT tenants_pkey PRIMARY KEY (id)
) WITH (fillfactor = 50);
CREATE INDEX tenants_deleted_at_idx ON tenants (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX tenants_domain_id_idx ON tenants (domain_id);
CREATE UNIQUE INDEX tenants_name_key ON tenants (name);
CREATE INDEX tenants_parent_idx ON tenants (parent) WHERE parent IS NOT NULL;
CREATE INDEX tenants_sql_schema_idx ON tenants (sql_schema) WHERE sql_schema IS NOT NULL;

CREATE TABLE objects (
    tenant_id bigint NOT NULL,
    resource text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    version text COLLATE "C" NOT NULL,
    schema_id bigint NOT NULL,
    body text NOT NULL,
    labels text[] COLLATE "C",
    owners text[] COLLATE "C",
    doc jsonb,
    pending boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    facet_any boolean GENERATED ALWAYS AS ((doc #>> '{metadata,facets,any}'::text[])::boolean) STORED,
    facet_text1 text COLLATE "C" GENERATED ALWAYS AS ((doc #>> '{metadata,facets,text1}'::text[])) STORED,
    facet_text2 text COLLATE "C" GENERATED ALWAYS AS ((doc #>> '{metadata,facets,text2}'::text[])) STORED,
    facet_text3 text COLLATE "C" GENERATED ALWAYS AS ((doc #>> '{metadata,facets,text3}'::text[])) STORED,
    facet_int1 bigint GENERATED ALWAYS AS ((doc #>> '{metadata,facets,int1}'::text[])::bigint) STORED,
    facet_int2 bigint GENERATED ALWAYS AS ((doc #>> '{metadata,facets,int2}'::text[])::bigint) STORED,
    facet_float1 double precision GENERATED ALWAYS AS ((doc #>> '{metadata,facets,float1}'::text[])::double precision) STORED,
    facet_time1 timestamptz
        GENERATED ALWAYS AS (to_timestamp((doc #>> '{metadata,facets,time1}'::text[])::double precision)) STORED,
    facet_ready boolean GENERATED ALWAYS AS ((doc #>> '{metadata,facets,ready}'::text[])::boolean) STORED,
    facet_ready_since timestamptz
        GENERATED ALWAYS AS (to_timestamp((doc #>> '{metadata,facets,ready_since}'::text[])::double precision)) STORED,
    CONSTRAINT objects_pkey PRIMARY KEY (tenant_id, resource, key)
) WITH (fillfactor = 80);
CREATE INDEX objects_facet_float1_idx ON objects (tenant_id, resource, facet_float1) WHERE facet_any;
CREATE INDEX objects_facet_int1_idx ON objects (tenant_id, resource, facet_int1) WHERE facet_any;
CREATE INDEX objects_facet_int2_idx ON objects (tenant_id, resource, facet_int2) WHERE facet_any;
CREATE INDEX objects_facet_ready_idx ON objects (tenant_id, resource, facet_ready, facet_ready_since) WHERE facet_any;
CREATE INDEX objects_facet_text1_idx ON objects (tenant_id, resource, facet_text1) WHERE facet_any;
CREATE INDEX objects_facet_text2_idx ON objects (tenant_id, resource, facet_text2) WHERE facet_any;
CREATE INDEX objects_facet_text3_idx ON objects (tenant_id, resource, facet_text3) WHERE facet_any;
CREATE INDEX objects_facet_time1_idx ON objects (tenant_id, resource, facet_time1) WHERE facet_any;
CREATE INDEX objects_labels_idx ON objects USING gin (labels) WITH (gin_pending_list_limit = 512)
    WHERE labels IS NOT NULL;
CREATE INDEX objects_owners_idx ON objects USING gin (owners) WHERE owners IS NOT NULL;
CREATE INDEX objects_pending_idx ON objects (tenant_id, resource, key) WHERE pending;
CREATE INDEX objects_uid_idx ON objects (uid);
-- Indexed columns are compared as stored: once compressed, to fit a body of some 2 kB into the row, an equal value counts
-- as changed, and no update of the row is HOT any more.
ALTER TABLE objects
    ALTER labels SET STORAGE MAIN, ALTER owners SET STORAGE MAIN,
    ALTER facet_text1 SET STORAGE MAIN, ALTER facet_text2 SET STORAGE MAIN, ALTER facet_text3 SET STORAGE MAIN;
-- The planner's estimates, which EXPLAIN shows, would tell a login how often a value occurs in the rows of all tenants.
ALTER TABLE objects
    ALTER facet_text1 SET STATISTICS 0, ALTER facet_text2 SET STATISTICS 0, ALTER facet_text3 SET STATISTICS 0,
    ALTER facet_int1 SET STATISTICS 0, ALTER facet_int2 SET STATISTICS 0, ALTER facet_float1 SET STATISTICS 0,
    ALTER facet_time1 SET STATISTICS 0;

CREATE TABLE changes (
    domain_id bigint NOT NULL,
    revision bigint NOT NULL,
    batch bigint NOT NULL,
    tenant_id bigint NOT NULL,
    resource text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    uid text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    schema_id bigint NOT NULL,
    body text,
    labels text[] COLLATE "C",
    previous_revision bigint,
    previous_version text COLLATE "C",
    previous_schema_id bigint,
    previous_body text,
    previous_labels text[] COLLATE "C",
    actor_user text NOT NULL,
    actor_manager text NOT NULL,
    actor_verb text NOT NULL,
    at timestamptz NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX changes_deleted_idx ON changes (tenant_id, resource, key, revision) WHERE type = 'DELETED'::text;
CREATE INDEX changes_domain_id_revision_idx ON changes (domain_id, revision);
CREATE INDEX changes_tenant_id_resource_key_revision_idx ON changes (tenant_id, resource, key, revision);

CREATE TABLE settings (
    name text COLLATE "C" NOT NULL,
    value jsonb NOT NULL,
    CONSTRAINT settings_pkey PRIMARY KEY (name)
);

CREATE TABLE leaders (
    name text COLLATE "C" NOT NULL,
    holder text NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT leaders_pkey PRIMARY KEY (name)
) WITH (fillfactor = 10);

CREATE TABLE access_tokens (
    tenant_id bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    user_name text NOT NULL,
    groups text[] NOT NULL,
    description text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT access_tokens_pkey PRIMARY KEY (tenant_id, id)
);

CREATE TABLE signing_keys (
    id text COLLATE "C" NOT NULL,
    secret bytea NOT NULL,
    signs_from timestamptz NOT NULL,
    signs_until timestamptz NOT NULL,
    verifies_until timestamptz NOT NULL,
    CONSTRAINT signing_keys_pkey PRIMARY KEY (id)
);

CREATE TABLE tenant_keys (
    tenant_id bigint NOT NULL,
    number bigint NOT NULL,
    master text COLLATE "C" NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tenant_keys_pkey PRIMARY KEY (tenant_id, number)
);

CREATE TABLE audit_events (
    at timestamptz NOT NULL,
    tenant text,
    username text NOT NULL,
    verb text NOT NULL,
    resource text NOT NULL,
    namespace text,
    name text,
    code integer,
    event jsonb NOT NULL
);
CREATE INDEX audit_events_at_idx ON audit_events (at);
CREATE INDEX audit_events_tenant_resource_idx ON audit_events (tenant, resource, namespace, name, at);

CREATE TABLE api_bindings (
    tenant_id bigint NOT NULL,
    resource text COLLATE "C" NOT NULL,
    since bigint NOT NULL,
    until bigint,
    provider_id bigint NOT NULL,
    export text COLLATE "C" NOT NULL,
    binding text COLLATE "C" NOT NULL,
    CONSTRAINT api_bindings_pkey PRIMARY KEY (tenant_id, resource, since)
);
CREATE UNIQUE INDEX api_bindings_now_key ON api_bindings (tenant_id, resource) WHERE until IS NULL;
CREATE INDEX api_bindings_provider_id_idx ON api_bindings (provider_id, resource);

CREATE TABLE report_views (
    id bigint GENERATED ALWAYS AS IDENTITY,
    resource text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    digests text[] NOT NULL COLLATE "C",
    shape jsonb NOT NULL,
    relations bigint NOT NULL,
    last_tenant_id bigint NOT NULL,
    empty_since timestamptz,
    CONSTRAINT report_views_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX report_views_name_key ON report_views (name);
CREATE INDEX report_views_resource_idx ON report_views (resource);

CREATE TABLE report_definitions (
    tenant_id bigint NOT NULL,
    resource text COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    version text COLLATE "C" NOT NULL,
    view_id bigint,
    state text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    short_name text COLLATE "C",
    facets jsonb NOT NULL DEFAULT '{}'::jsonb,
    at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT report_definitions_pkey PRIMARY KEY (tenant_id, resource)
);
CREATE INDEX report_definitions_view_id_idx ON report_definitions (view_id, tenant_id);

CREATE TABLE report_tenants (
    tenant_id bigserial,
    definitions_revision bigint NOT NULL,
    CONSTRAINT report_tenants_pkey PRIMARY KEY (tenant_id)
);

CREATE TABLE report_schemas (
    name text COLLATE "C" NOT NULL,
    tenant_id bigint,
    CONSTRAINT report_schemas_pkey PRIMARY KEY (name)
);
CREATE INDEX report_schemas_tenant_id_idx ON report_schemas (tenant_id);

CREATE TABLE report_logins (
    name text COLLATE "C" NOT NULL,
    across boolean NOT NULL,
    tenant_ids bigint[],
    timeout_seconds bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    provider_id bigint,
    CONSTRAINT report_logins_pkey PRIMARY KEY (name)
);

-- For people with psql: what there is, and what has happened, of every tenant, for the database's owner. `object` is json,
-- not jsonb: jsonb refuses the character U+0000, which objects may hold, and one such object would fail every query. A
-- stored body begins behind the resource version (registry/store/types.py, Row).
CREATE VIEW resources AS
SELECT t.name AS tenant, o.resource,
    CASE WHEN strpos(o.key, '/') > 0 THEN split_part(o.key, '/', 1) END AS namespace,
    split_part(o.key, '/', -1) AS name, o.uid, o.revision, o.version, o.created_at, o.updated_at,
    ('{"metadata":{"resourceVersion":"' || o.revision || '",' || o.body)::json AS object
FROM objects o JOIN tenants t ON t.id = o.tenant_id
WHERE t.deleted_at IS NULL;
COMMENT ON VIEW resources IS 'Every object of every tenant as it is now.';

CREATE VIEW resource_history AS
SELECT t.name AS tenant, c.resource,
    CASE WHEN strpos(c.key, '/') > 0 THEN split_part(c.key, '/', 1) END AS namespace,
    split_part(c.key, '/', -1) AS name, c.uid, c.revision, c.type, c.actor_user, c.actor_manager, c.actor_verb, c.at,
    ('{"metadata":{"resourceVersion":"' || c.revision || '",' || c.body)::json AS object,
    ('{"metadata":{"resourceVersion":"' || c.previous_revision || '",' || c.previous_body)::json AS previous
FROM changes c JOIN tenants t ON t.id = c.tenant_id
WHERE t.deleted_at IS NULL;
COMMENT ON VIEW resource_history IS 'Every change within the retention time, and the state before it.';
