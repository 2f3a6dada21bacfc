"""The tables, declared once: the data model on one page.

Alembic makes them (`migrations/`), a test checks that both agree. Each index says which query it serves. There is no
foreign key and no unique constraint across tenants: the tenant leads every key, so that tenants can be spread over
servers later. Texts that are compared are in the collation "C": by bytes, as Kubernetes orders keys.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    DateTime,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, DOUBLE_PRECISION, JSONB, TSVECTOR
from sqlalchemy.types import TypeEngine

TENANTS_NAME_UNIQUE: Final = "tenants_name_key"

metadata = MetaData()


def bytewise() -> Text:
    return Text(collation="C")


def _facet(name: str, kind: TypeEngine[Any], made: str) -> Column[Any]:
    value = "doc #>> '{metadata,facets," + name + "}'::text[]"
    return Column(f"facet_{name}", kind, Computed(made.format(value), persisted=True))


def _facet_index(name: str, *others: str) -> Index:
    column = f"facet_{name}"
    return Index(f"objects_{column}_idx", "tenant_id", "resource", column, *others, postgresql_where=text("facet_any"))


# One row per revision domain: the counter that every write of the domain locks first. Mostly empty pages (fillfactor)
# keep its updates HOT while a long report holds back clean-up.
# `compact_revision` is the lowest revision from which the change log is complete. `lost` holds pairs of revisions,
# NULL for none: those in between were assigned by a server that lost them (store/timelines.py).
domains = Table(
    "domains",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column("revision", BigInteger, nullable=False, server_default=text("0")),
    Column("compact_revision", BigInteger, nullable=False, server_default=text("0")),
    # The same for servers of migration 0013: the trigger domains_follow_floor keeps both equal. The next release drops
    # it.
    Column("floor", BigInteger, nullable=False, server_default=text("0")),
    # Of a domain that tenants share by its name; NULL for one of a single tenant.
    Column("name", bytewise()),
    Column("lost", ARRAY(BigInteger)),
    PrimaryKeyConstraint("id", name="domains_pkey"),
    # A shared domain by its name.
    Index("domains_name_key", "name", unique=True, postgresql_where=text("name IS NOT NULL")),
    postgresql_with={"fillfactor": "10"},
)

# One row per server that has been written to, in order (store/timelines.py): after a failover or a restore there is
# another. `token` distinguishes rows that two servers created under the same number.
timelines = Table(
    "timelines",
    metadata,
    Column("number", BigInteger, nullable=False, autoincrement=False),
    Column("system_identifier", BigInteger, nullable=False),
    Column("timeline", BigInteger, nullable=False),
    Column("token", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("number", name="timelines_pkey"),
)

# `definitions_revision` and `namespaces_revision` guard the writes of a tenant. They change only under the
# lock of the domain's row, as does all that a commit checks: whether the tenant is suspended, its usage (objects, the
# bytes of their bodies, definitions, namespaces), and the limits of that, NULL for none. `parent` is a tenant's name,
# `sql_schema` the name of its PostgreSQL schema for reports.
# A row with `deleted_at` is a deleted tenant: it can no longer be found, and its objects are being removed.
tenants = Table(
    "tenants",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column("name", bytewise(), nullable=False),
    Column("domain_id", BigInteger, nullable=False),
    Column("definitions_revision", BigInteger, nullable=False, server_default=text("0")),
    Column("namespaces_revision", BigInteger, nullable=False, server_default=text("0")),
    Column("attributes", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("deleted_at", DateTime(timezone=True)),
    Column("parent", bytewise()),
    Column("sql_schema", bytewise()),
    Column("suspended", Boolean, nullable=False, server_default=text("false")),
    Column("objects", BigInteger, nullable=False, server_default=text("0")),
    Column("bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("definitions", BigInteger, nullable=False, server_default=text("0")),
    Column("namespaces", BigInteger, nullable=False, server_default=text("0")),
    Column("max_objects", BigInteger),
    Column("max_bytes", BigInteger),
    Column("max_definitions", BigInteger),
    Column("max_namespaces", BigInteger),
    PrimaryKeyConstraint("id", name="tenants_pkey"),
    # A tenant by its name; tenants in the order of their names.
    Index(TENANTS_NAME_UNIQUE, "name", unique=True),
    # Whether a domain still has tenants.
    Index("tenants_domain_id_idx", "domain_id"),
    # Tenants whose removal has begun.
    Index("tenants_deleted_at_idx", "deleted_at", postgresql_where=text("deleted_at IS NOT NULL")),
    # Whether a tenant has children; who has a schema of a name.
    Index("tenants_parent_idx", "parent", postgresql_where=text("parent IS NOT NULL")),
    Index("tenants_sql_schema_idx", "sql_schema", postgresql_where=text("sql_schema IS NOT NULL")),
    postgresql_with={"fillfactor": "50"},
)

# The current rows. `key` is "<namespace>/<name>" or "<name>". `labels` holds '<tenant_id>/<resource>/<key>=<value>',
# `owners` '<tenant_id>/<uid>', both NULL where there is none. The revision has no index: it would end HOT updates.
objects = Table(
    "objects",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("resource", bytewise(), nullable=False),
    Column("key", bytewise(), nullable=False),
    Column("uid", bytewise(), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("version", bytewise(), nullable=False),
    Column("schema_id", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("labels", ARRAY(bytewise())),
    Column("owners", ARRAY(bytewise())),
    Column("doc", JSONB),
    Column("pending", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", DateTime(timezone=True), nullable=False),
    Column("updated_at", DateTime(timezone=True), nullable=False),
    # Fields that reports filter and sort by, out of `doc`: columns, because an index on an expression over `doc` would
    # end HOT updates, could not serve a filter below row-level security, and never answer without the row.
    # `facet_any` tells whether there are such: the indexes are of those objects.
    _facet("any", Boolean(), "({0})::boolean"),
    _facet("text1", bytewise(), "{0}"),
    _facet("text2", bytewise(), "{0}"),
    _facet("text3", bytewise(), "{0}"),
    _facet("int1", BigInteger(), "({0})::bigint"),
    _facet("int2", BigInteger(), "({0})::bigint"),
    _facet("float1", DOUBLE_PRECISION(), "({0})::double precision"),
    _facet("time1", DateTime(timezone=True), "to_timestamp(({0})::double precision)"),
    _facet("ready", Boolean(), "({0})::boolean"),
    _facet("ready_since", DateTime(timezone=True), "to_timestamp(({0})::double precision)"),
    # Whether the object is being deleted. NULL: its row is older than the column.
    Column("terminating", Boolean),
    # Its entries in declared indexes, and the number of the layout that they were made by; NULL where there are none.
    Column("index_layout", BigInteger),
    Column("index_entries", ARRAY(LargeBinary)),
    # A point read; a page in the order of the keys.
    PrimaryKeyConstraint("tenant_id", "resource", "key", name="objects_pkey"),
    # A page with an equality or `in` term of a selector.
    Index(
        "objects_labels_idx",
        "labels",
        postgresql_using="gin",
        postgresql_where=text("labels IS NOT NULL"),
        postgresql_with={"gin_pending_list_limit": "512"},
    ),
    # Objects that controllers still have to reconcile, in all tenants.
    Index("objects_pending_idx", "tenant_id", "resource", "key", postgresql_where=text("pending")),
    # Garbage collection: the objects that an owner has.
    Index("objects_owners_idx", "owners", postgresql_using="gin", postgresql_where=text("owners IS NOT NULL")),
    # Reports: an object by its uid, for joins; filters, orders and counts by a field, without visiting the row.
    Index("objects_uid_idx", "uid"),
    *(_facet_index(name) for name in ("text1", "text2", "text3", "int1", "int2", "float1", "time1")),
    _facet_index("ready", "facet_ready_since"),
    postgresql_with={"fillfactor": "80"},
)

# How many objects of a resource a tenant has: in all under the namespace '', and in each namespace that has some.
# Triggers on `objects` keep it (sql/counts.sql), so that it is exact in every snapshot.
object_counts = Table(
    "object_counts",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("resource", bytewise(), nullable=False),
    Column("namespace", bytewise(), nullable=False),
    Column("objects", BigInteger, nullable=False),
    # What a list begins with.
    PrimaryKeyConstraint("tenant_id", "resource", "namespace", name="object_counts_pkey"),
    postgresql_with={"fillfactor": "50"},
)

# Which definitions of other tenants a tenant has bound: from the revision `since` of its domain on, up to `until`, or
# now where that is NULL. What has ended is kept as long as the log: it says whose past events are whose.
api_bindings = Table(
    "api_bindings",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("resource", bytewise(), nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger),
    Column("provider_id", BigInteger, nullable=False),
    Column("export", bytewise(), nullable=False),
    Column("binding", bytewise(), nullable=False),
    # What a tenant has bound.
    PrimaryKeyConstraint("tenant_id", "resource", "since", name="api_bindings_pkey"),
    # No two bindings of a tenant have one resource.
    Index("api_bindings_now_key", "tenant_id", "resource", unique=True, postgresql_where=text("until IS NULL")),
    # Who has bound a definition.
    Index("api_bindings_provider_id_idx", "provider_id", "resource"),
)

# The append-only log. Of a deletion `body` is NULL and `previous_body` the last state. `batch` is the same random
# number for all that was committed together: it tells a writer that lost its connection whether its commit happened.
changes = Table(
    "changes",
    metadata,
    Column("domain_id", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("batch", BigInteger, nullable=False),
    Column("tenant_id", BigInteger, nullable=False),
    Column("resource", bytewise(), nullable=False),
    Column("key", bytewise(), nullable=False),
    Column("uid", bytewise(), nullable=False),
    Column("type", bytewise(), nullable=False),
    Column("version", bytewise(), nullable=False),
    Column("schema_id", BigInteger, nullable=False),
    Column("body", Text),
    Column("labels", ARRAY(bytewise())),
    Column("previous_revision", BigInteger),
    Column("previous_version", bytewise()),
    Column("previous_schema_id", BigInteger),
    Column("previous_body", Text),
    Column("previous_labels", ARRAY(bytewise())),
    Column("actor_user", Text, nullable=False),
    Column("actor_manager", Text, nullable=False),
    Column("actor_verb", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    # Whether other objects may have to change afterwards. NULL: its row is older than the column.
    Column("follow_up", Boolean),
    # The previous state's entries in declared indexes: for lists at a revision.
    Column("previous_index_entries", ARRAY(LargeBinary)),
    # The previous state's document (`objects.doc`): what history views read columns from. It is copied as it is stored.
    Column("previous_doc", JSONB),
    # What watches read: the changes of a domain after a revision.
    Index("changes_domain_id_revision_idx", "domain_id", "revision"),
    # The history of an object or a range of keys; pages at a much older revision.
    Index("changes_tenant_id_resource_key_revision_idx", "tenant_id", "resource", "key", "revision"),
    # Deleted objects, ordered by key.
    Index(
        "changes_deleted_idx",
        "tenant_id",
        "resource",
        "key",
        "revision",
        postgresql_where=text("type = 'DELETED'::text"),
    ),
    postgresql_partition_by="RANGE (at)",
)

# The entries of current objects in the indexes that their definitions declare, sorted: the index's id and the values of
# its fields as bytes whose order is that of the values (registry/query/encoding.py). One B-tree for all indexes.
index_entries = Table(
    "index_entries",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("entry", LargeBinary, nullable=False),
    Column("key", bytewise(), nullable=False),
    # A range of an index, in either direction; objects with equal entries ordered by key.
    PrimaryKeyConstraint("tenant_id", "entry", "key", name="index_entries_pkey"),
)

# The words of current objects whose definitions declare texts to be searched (registry/query/text.py). The tenant and
# the index stand before each word, so that one index serves all of them (registry_words in sql/commit.sql).
search_words = Table(
    "search_words",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("resource", bytewise(), nullable=False),
    Column("key", bytewise(), nullable=False),
    Column("words", TSVECTOR, nullable=False),
    PrimaryKeyConstraint("tenant_id", "resource", "key", name="search_words_pkey"),
    # The objects that have words.
    Index("search_words_words_idx", "words", postgresql_using="gin", postgresql_with={"gin_pending_list_limit": "512"}),
)

# The revision from which each index of a resource is complete; NULL while `build` is building it.
ready_indexes = Table(
    "ready_indexes",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("resource", bytewise(), nullable=False),
    Column("index_id", BigInteger, nullable=False),
    Column("build", BigInteger, nullable=False),
    Column("revision", BigInteger),
    PrimaryKeyConstraint("tenant_id", "resource", "index_id", name="ready_indexes_pkey"),
)

# The data keys of tenants, each wrapped by the named master key; the newest seals (sealing.py).
tenant_keys = Table(
    "tenant_keys",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("master", bytewise(), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    PrimaryKeyConstraint("tenant_id", "number", name="tenant_keys_pkey"),
)

# Audit events, if they are written to the database; a setting defines their retention.
audit_events = Table(
    "audit_events",
    metadata,
    Column("at", DateTime(timezone=True), nullable=False),
    Column("tenant", Text),
    Column("username", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("namespace", Text),
    Column("name", Text),
    Column("code", Integer),
    Column("event", JSONB, nullable=False),
    # Events in a time range; expired events.
    Index("audit_events_at_idx", "at"),
    # Events of an object, and of a tenant.
    Index("audit_events_tenant_resource_idx", "tenant", "resource", "namespace", "name", "at"),
)

# Values shared by all processes: signing keys, the ID of this installation ...
settings = Table(
    "settings",
    metadata,
    Column("name", bytewise(), nullable=False),
    Column("value", JSONB, nullable=False),
    PrimaryKeyConstraint("name", name="settings_pkey"),
)

# The current leader of each background job, and when it expires unless renewed; by PostgreSQL's clock.
leaders = Table(
    "leaders",
    metadata,
    Column("name", bytewise(), nullable=False),
    Column("holder", Text, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("name", name="leaders_pkey"),
    postgresql_with={"fillfactor": "10"},
)

# Bearer tokens. `hash` is the SHA-256 of the secret part; the token itself is nowhere.
access_tokens = Table(
    "access_tokens",
    metadata,
    Column("tenant_id", BigInteger, nullable=False),
    Column("id", bytewise(), nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("user_name", Text, nullable=False),
    Column("groups", ARRAY(Text), nullable=False),
    Column("description", Text, nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=text("now()")),
    Column("expires_at", DateTime(timezone=True)),
    Column("revoked_at", DateTime(timezone=True)),
    # One token; the tokens of a tenant.
    PrimaryKeyConstraint("tenant_id", "id", name="access_tokens_pkey"),
)

# The keys that service account tokens are signed with, one set for the server; `secret` is sealed.
signing_keys = Table(
    "signing_keys",
    metadata,
    Column("id", bytewise(), nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("signs_from", DateTime(timezone=True), nullable=False),
    Column("signs_until", DateTime(timezone=True), nullable=False),
    Column("verifies_until", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("id", name="signing_keys_pkey"),
)
