-- The tables as the newest migration leaves them: the data model on one page. Migrations create them
-- (migrations/versions); tests/store/test_migrate.py compares. Each index says which query it serves. There is no
-- foreign key and no unique constraint across tenants: the tenant leads every key, so that tenants can be spread over
-- servers later. Texts that are compared are in the collation "C": by bytes, as Kubernetes orders keys.

-- One row per revision domain: the counter that every write of the domain locks first. Mostly empty pages (fillfactor)
-- keep its updates HOT while a long report holds back clean-up.
-- `compact_revision` is the lowest revision from which the change log is complete. `lost` holds pairs of revisions,
-- NULL for none: those in between were assigned by a server that lost them (store/timelines.py).
CREATE TABLE domains (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    revision bigint NOT NULL DEFAULT 0,
    compact_revision bigint NOT NULL DEFAULT 0,
    -- The same for servers of migration 0013: the trigger domains_follow_floor keeps both equal. The next release drops
    -- it.
    floor bigint NOT NULL DEFAULT 0,
    -- Of a domain that tenants share by its name; NULL for one of a single tenant.
    name text COLLATE "C",
    lost bigint[]
) WITH (fillfactor = 10);
-- A shared domain by its name.
CREATE UNIQUE INDEX domains_name_key ON domains (name) WHERE name IS NOT NULL;

-- One row per server that has been written to, in order (store/timelines.py): after a failover or a restore there is
-- another. `token` distinguishes rows that two servers created under the same number.
CREATE TABLE timelines (
    number bigint PRIMARY KEY,
    system_identifier bigint NOT NULL,
    timeline bigint NOT NULL,
    token text NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL
);

-- `definitions_revision` and `namespaces_revision` guard the writes of a tenant. They change only under the
-- lock of the domain's row, as does all that a commit checks: whether the tenant is suspended, its usage (objects, the
-- bytes of their bodies, definitions, namespaces), and the limits of that, NULL for none. `parent` is a tenant's name,
-- `sql_schema` the name of its PostgreSQL schema for reports.
-- A row with `deleted_at` is a deleted tenant: it can no longer be found, and its objects are being removed.
CREATE TABLE tenants (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    domain_id bigint NOT NULL,
    definitions_revision bigint NOT NULL DEFAULT 0,
    namespaces_revision bigint NOT NULL DEFAULT 0,
    attributes jsonb NOT NULL DEFAULT '{}',
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
    max_namespaces bigint
) WITH (fillfactor = 50);
-- A tenant by its name; tenants in the order of their names.
CREATE UNIQUE INDEX tenants_name_key ON tenants (name);
-- Whether a domain still has tenants.
CREATE INDEX tenants_domain_id_idx ON tenants (domain_id);
-- Tenants whose removal has begun.
CREATE INDEX tenants_deleted_at_idx ON tenants (deleted_at) WHERE deleted_at IS NOT NULL;
-- Whether a tenant has children; who has a schema of a name.
CREATE INDEX tenants_parent_idx ON tenants (parent) WHERE parent IS NOT NULL;
CREATE INDEX tenants_sql_schema_idx ON tenants (sql_schema) WHERE sql_schema IS NOT NULL;

-- The current rows. `key` is "<namespace>/<name>" or "<name>". `labels` holds '<tenant_id>/<resource>/<key>=<value>',
-- `owners` '<tenant_id>/<uid>', both NULL where there is none. The revision has no index: it would end HOT updates.
CREATE TABLE objects (
    tenant_id bigint,
    resource text COLLATE "C",
    key text COLLATE "C",
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
    -- Fields that reports filter and sort by, out of `doc`: columns, because an index on an expression over `doc` would
    -- end HOT updates, could not serve a filter below row-level security, and never answer without the row.
    -- `facet_any` tells whether there are such: the indexes are of those objects.
    facet_any boolean GENERATED ALWAYS AS ((doc #>> '{metadata,facets,any}')::boolean) STORED,
    facet_text1 text COLLATE "C" GENERATED ALWAYS AS (doc #>> '{metadata,facets,text1}') STORED,
    facet_text2 text COLLATE "C" GENERATED ALWAYS AS (doc #>> '{metadata,facets,text2}') STORED,
    facet_text3 text COLLATE "C" GENERATED ALWAYS AS (doc #>> '{metadata,facets,text3}') STORED,
    facet_int1 bigint GENERATED ALWAYS AS ((doc #>> '{metadata,facets,int1}')::bigint) STORED,
    facet_int2 bigint GENERATED ALWAYS AS ((doc #>> '{metadata,facets,int2}')::bigint) STORED,
    facet_float1 double precision GENERATED ALWAYS AS ((doc #>> '{metadata,facets,float1}')::double precision) STORED,
    facet_time1 timestamptz
        GENERATED ALWAYS AS (to_timestamp((doc #>> '{metadata,facets,time1}')::double precision)) STORED,
    facet_ready boolean GENERATED ALWAYS AS ((doc #>> '{metadata,facets,ready}')::boolean) STORED,
    facet_ready_since timestamptz
        GENERATED ALWAYS AS (to_timestamp((doc #>> '{metadata,facets,ready_since}')::double precision)) STORED,
    -- Whether the object is being deleted. NULL: its row is older than the column.
    terminating boolean,
    -- Its entries in declared indexes, and the number of the layout that they were made by; NULL where there are none.
    index_layout bigint,
    index_entries bytea[],
    -- A point read; a page in the order of the keys.
    PRIMARY KEY (tenant_id, resource, key)
) WITH (fillfactor = 80);
-- A page with an equality or `in` term of a selector.
CREATE INDEX objects_labels_idx ON objects USING gin (labels) WITH (gin_pending_list_limit = 512)
    WHERE labels IS NOT NULL;
-- Objects that controllers still have to reconcile, in all tenants.
CREATE INDEX objects_pending_idx ON objects (tenant_id, resource, key) WHERE pending;
-- Garbage collection: the objects that an owner has.
CREATE INDEX objects_owners_idx ON objects USING gin (owners) WHERE owners IS NOT NULL;
-- Reports: an object by its uid, for joins; filters, orders and counts by a field, without visiting the row.
CREATE INDEX objects_uid_idx ON objects (uid);
CREATE INDEX objects_facet_text1_idx ON objects (tenant_id, resource, facet_text1) WHERE facet_any;
CREATE INDEX objects_facet_text2_idx ON objects (tenant_id, resource, facet_text2) WHERE facet_any;
CREATE INDEX objects_facet_text3_idx ON objects (tenant_id, resource, facet_text3) WHERE facet_any;
CREATE INDEX objects_facet_int1_idx ON objects (tenant_id, resource, facet_int1) WHERE facet_any;
CREATE INDEX objects_facet_int2_idx ON objects (tenant_id, resource, facet_int2) WHERE facet_any;
CREATE INDEX objects_facet_float1_idx ON objects (tenant_id, resource, facet_float1) WHERE facet_any;
CREATE INDEX objects_facet_time1_idx ON objects (tenant_id, resource, facet_time1) WHERE facet_any;
CREATE INDEX objects_facet_ready_idx ON objects (tenant_id, resource, facet_ready, facet_ready_since) WHERE facet_any;

-- How many objects of a resource a tenant has: in all under the namespace '', and in each namespace that has some.
-- Triggers on `objects` keep it (sql/counts.sql), so that it is exact in every snapshot.
CREATE TABLE object_counts (
    tenant_id bigint,
    resource text COLLATE "C",
    namespace text COLLATE "C",
    objects bigint NOT NULL,
    -- What a list begins with.
    PRIMARY KEY (tenant_id, resource, namespace)
) WITH (fillfactor = 50);

-- Which definitions of other tenants a tenant has bound: from the revision `since` of its domain on, up to `until`, or
-- now where that is NULL. What has ended is kept as long as the log: it says whose past events are whose.
CREATE TABLE api_bindings (
    tenant_id bigint,
    resource text COLLATE "C",
    since bigint,
    until bigint,
    provider_id bigint NOT NULL,
    export text COLLATE "C" NOT NULL,
    binding text COLLATE "C" NOT NULL,
    -- What a tenant has bound.
    PRIMARY KEY (tenant_id, resource, since)
);
-- No two bindings of a tenant have one resource.
CREATE UNIQUE INDEX api_bindings_now_key ON api_bindings (tenant_id, resource) WHERE until IS NULL;
-- Who has bound a definition.
CREATE INDEX api_bindings_provider_id_idx ON api_bindings (provider_id, resource);

-- The append-only log. Of a deletion `body` is NULL and `previous_body` the last state. `batch` is the same random
-- number for all that was committed together: it tells a writer that lost its connection whether its commit happened.
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
    at timestamptz NOT NULL,
    -- Whether other objects may have to change afterwards. NULL: its row is older than the column.
    follow_up boolean,
    -- The previous state's entries in declared indexes: for lists at a revision.
    previous_index_entries bytea[],
    -- The previous state's document (`objects.doc`): what history views read columns from. It is copied as it is
    -- stored.
    previous_doc jsonb
) PARTITION BY RANGE (at);
-- What watches read: the changes of a domain after a revision.
CREATE INDEX changes_domain_id_revision_idx ON changes (domain_id, revision);
-- The history of an object or a range of keys; pages at a much older revision.
CREATE INDEX changes_tenant_id_resource_key_revision_idx ON changes (tenant_id, resource, key, revision);
-- Deleted objects, ordered by key.
CREATE INDEX changes_deleted_idx ON changes (tenant_id, resource, key, revision) WHERE type = 'DELETED';

-- The entries of current objects in the indexes that their definitions declare, sorted: the index's id and the values
-- of its fields as bytes whose order is that of the values (registry/query/encoding.py). One B-tree for all indexes.
CREATE TABLE index_entries (
    tenant_id bigint,
    entry bytea,
    key text COLLATE "C",
    -- A range of an index, in either direction; objects with equal entries ordered by key.
    PRIMARY KEY (tenant_id, entry, key)
);

-- The words of current objects whose definitions declare texts to be searched (registry/query/text.py). The tenant and
-- the index stand before each word, so that one index serves all of them (registry_words in sql/commit.sql).
CREATE TABLE search_words (
    tenant_id bigint,
    resource text COLLATE "C",
    key text COLLATE "C",
    words tsvector NOT NULL,
    PRIMARY KEY (tenant_id, resource, key)
);
-- The objects that have words.
CREATE INDEX search_words_words_idx ON search_words USING gin (words) WITH (gin_pending_list_limit = 512);

-- The revision from which each index of a resource is complete; NULL while `build` is building it.
CREATE TABLE ready_indexes (
    tenant_id bigint,
    resource text COLLATE "C",
    index_id bigint,
    build bigint NOT NULL,
    revision bigint,
    PRIMARY KEY (tenant_id, resource, index_id)
);

-- The data keys of tenants, each wrapped by the named master key; the newest seals (sealing.py).
CREATE TABLE tenant_keys (
    tenant_id bigint,
    number bigint,
    master text COLLATE "C" NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, number)
);

-- Audit events, if they are written to the database; a setting defines their retention.
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
-- Events in a time range; expired events.
CREATE INDEX audit_events_at_idx ON audit_events (at);
-- Events of an object, and of a tenant.
CREATE INDEX audit_events_tenant_resource_idx ON audit_events (tenant, resource, namespace, name, at);

-- Values shared by all processes: signing keys, the ID of this installation ...
CREATE TABLE settings (
    name text COLLATE "C" PRIMARY KEY,
    value jsonb NOT NULL
);

-- The current leader of each background job, and when it expires unless renewed; by PostgreSQL's clock.
CREATE TABLE leaders (
    name text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 10);

-- Bearer tokens. `hash` is the SHA-256 of the secret part; the token itself is nowhere.
CREATE TABLE access_tokens (
    tenant_id bigint,
    id text COLLATE "C",
    hash bytea NOT NULL,
    user_name text NOT NULL,
    groups text[] NOT NULL,
    description text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    -- One token; the tokens of a tenant.
    PRIMARY KEY (tenant_id, id)
);

-- The keys that service account tokens are signed with, one set for the server; `secret` is sealed.
CREATE TABLE signing_keys (
    id text COLLATE "C" PRIMARY KEY,
    secret bytea NOT NULL,
    signs_from timestamptz NOT NULL,
    signs_until timestamptz NOT NULL,
    verifies_until timestamptz NOT NULL
);

-- Reporting: its views, definitions, schemas and logins.

-- One row per set of reporting views: all tenants with the same definition share it. `shape` holds its columns in their
-- order, which is kept for good; `digests` the definitions that it has served. `relations` counts its views.
CREATE TABLE report_views (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    digests text[] COLLATE "C" NOT NULL,
    shape jsonb NOT NULL,
    relations bigint NOT NULL,
    last_tenant_id bigint NOT NULL,
    empty_since timestamptz
);
-- No two views have one name; the views of a resource.
CREATE UNIQUE INDEX report_views_name_key ON report_views (name);
CREATE INDEX report_views_resource_idx ON report_views (resource);

-- What has become of each definition in reports, as of its `revision`; a deleted one keeps its view, which shows its
-- history. `facets` are the indexed fields that all its objects carry, `short_name` what its view is called in the
-- tenant's own schema.
CREATE TABLE report_definitions (
    tenant_id bigint,
    resource text COLLATE "C",
    revision bigint NOT NULL,
    version text COLLATE "C" NOT NULL,
    view_id bigint,
    state text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    short_name text COLLATE "C",
    facets jsonb NOT NULL DEFAULT '{}',
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, resource)
);
-- The tenants of a view.
CREATE INDEX report_definitions_view_id_idx ON report_definitions (view_id, tenant_id);

-- The revision of its definitions up to which a tenant's views have been created.
CREATE TABLE report_tenants (
    tenant_id bigint PRIMARY KEY,
    definitions_revision bigint NOT NULL
);

-- The PostgreSQL schemas created by reporting; `tenant_id` if one is a tenant's own.
CREATE TABLE report_schemas (
    name text COLLATE "C" PRIMARY KEY,
    tenant_id bigint
);
-- The schema of a tenant.
CREATE INDEX report_schemas_tenant_id_idx ON report_schemas (tenant_id);

-- Logins for reports. Not `across`: one tenant's. `across`: the named tenants', or with NULL all.
CREATE TABLE report_logins (
    name text COLLATE "C" PRIMARY KEY,
    across boolean NOT NULL,
    tenant_ids bigint[],
    timeout_seconds bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The tenant whose exports it sees, in the tenants that have bound them.
    provider_id bigint
);
