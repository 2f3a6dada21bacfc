"""Every setting of the server, declared once.

A field of `Settings` is a setting: its flag (`--data-dir`), its environment variable (`REGISTRY_DATA_DIR`), the text in
`--help` and the row in docs/settings.md all come from the declaration.
"""

# ruff: noqa: RUF009 - `setting` is dataclasses.field with other arguments; it is meant to be called once.
from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from registry import emulation
from registry.settings.values import (
    builtin_indexes,
    database_address,
    header_text,
    host_pattern,
    issuer,
    names,
    networks,
    one_of,
    path,
    resources,
    services,
    switch,
    whole_number,
)

ENVIRONMENT_PREFIX = "REGISTRY_"
# Values of `host` that mean all addresses of the machine.
WILDCARD_HOSTS: Final = ("0.0.0.0", "::", "")


class SettingsError(Exception):
    """A setting has an unusable value; the text names it and says why."""


def setting(default: Any, help: str, parse: Callable[[str], Any] = str, *, shown: str | None = None) -> Any:
    """Declares a setting. `parse` converts text to the value, or raises ValueError; `shown` is the default in words."""
    return dataclasses.field(default=default, metadata={"help": help, "parse": parse, "shown": shown})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one server."""

    data_dir: Path = setting(
        dataclasses.MISSING,
        "Folder for what the server keeps outside the database: its CA, the administrator's token, a kubeconfig and, "
        "without a database URL, PostgreSQL itself.",
        path,
        shown="/var/lib/registry for root, else $XDG_DATA_HOME/registry or ~/.local/share/registry",
    )
    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 or :: for all.")
    port: int = setting(6443, "Port to listen on; 0 for any free one.", whole_number(0, 65535))
    workers: int = setting(1, "Processes that serve the port.", whole_number(1, 64))
    max_connections: int = setting(
        10_000,
        "Maximum number of open connections of a process; lower if its limit of open files (ulimit -n) is lower. A "
        "tenant may have as many as are still free, so at most half; beyond that its idle ones are closed. One that "
        "has ever sent or received much at once counts as two.",
        whole_number(1, 1_000_000),
    )
    upload_limit_megabytes: int = setting(
        128,
        "Maximum size of all request bodies that a process holds until they are answered, in MiB. A tenant may hold as "
        "much as is still free, so at most half; beyond that the answer is 429.",
        whole_number(16, 1_000_000),
    )
    answer_limit_megabytes: int = setting(
        128,
        "Maximum size of all answers that a process holds until clients have read them, with the data they are made "
        "from, in MiB. A tenant may hold as much as is still free; beyond that answers wait for ten seconds, those to "
        "writes before the commit, and are 429 then; and the connection whose client has read nothing for the longest "
        "time is closed.",
        whole_number(64, 1_000_000),
    )
    cache_limit_megabytes: int = setting(
        256,
        "Maximum size of all caches of a process together (definitions, compiled schemas, roles, documents, lists), in "
        "MiB. Beyond that the entries that were used least recently are dropped, and made again when they are needed.",
        whole_number(32, 1_000_000),
    )
    evaluation_limit_milliseconds: int = setting(
        250,
        "Processor time that evaluating a request (schemas, rules, policies, patches) may hold the event loop "
        "for, in ms; after that it is restarted in a thread "
        "of its own with 20 times the limit, beyond which the answer is 503.",
        whole_number(50, 60_000),
    )
    database_url: str | None = setting(
        None,
        "PostgreSQL 14 or newer, as postgresql://user:password@host/database; without it the server runs its own.",
        database_address,
        shown="an embedded PostgreSQL in the data folder",
    )
    listen_database_url: str | None = setting(
        None,
        "The same database for LISTEN, not through a pooler such as pgbouncer, where no notification arrives.",
        database_address,
        shown="the database URL",
    )
    tls_cert_file: Path | None = setting(
        None, "Certificate chain to serve (PEM); reloaded when it changes.", path,
        shown="a certificate of the server's own CA",
    )  # fmt: skip
    tls_private_key_file: Path | None = setting(None, "Private key of that certificate (PEM).", path)
    tls_names: tuple[str, ...] = setting(
        (), "Further names and addresses, separated by commas, for the server's own certificate.", names
    )
    history_days: int = setting(
        7, "How long changes are kept: how far back watches resume, and history reaches.", whole_number(1, 3650)
    )
    strict_transport_security: str = setting(
        "", "Strict-Transport-Security header of every answer, such as max-age=31536000.", header_text, shown="not sent"
    )
    encryption_key_file: Path | None = setting(
        None, "File of master keys, a line <name>:<32 bytes in base64> each. The first one encrypts the objects of "
        "--encrypt-resources (docs/security.md). Without the file, REGISTRY_ENCRYPTION_KEYS may hold the lines.", path,
        shown="encryption-keys in the data folder, made with an embedded PostgreSQL; else nothing is encrypted",
    )  # fmt: skip
    encrypt_resources: tuple[str, ...] = setting(
        ("secrets",), "Resources whose objects are encrypted in the database if there is a master key, as "
        "plural.group, separated by commas; none for none.", resources, shown="secrets",
    )  # fmt: skip
    builtin_indexes: tuple[tuple[str, str], ...] = setting(
        (), "Indexes of built-in kinds for queries (docs/query.md), as <resource>=<fields>, separated by ;, such as "
        "configmaps=metadata.creationTimestamp desc.", builtin_indexes, shown="none",
    )  # fmt: skip
    clusterpedia_labels: bool = setting(
        False, "Whether the label keys of clusterpedia, as search.clusterpedia.io/orderby, are parameters of queries.",
        switch,
    )  # fmt: skip
    audit_policy_file: Path | None = setting(
        None,
        "Kubernetes audit policy (audit.k8s.io/v1): which requests are audited, and at which level; reloaded when it "
        "changes.",
        path,
        shown="nothing is audited",
    )  # fmt: skip
    audit_log_path: Path | None = setting(
        None, "File to which audit events are appended, one line of JSON each.", path, shown="no file"
    )
    audit_log_megabytes: int = setting(100, "Size at which that file is rotated.", whole_number(1, 100_000))
    audit_log_files: int = setting(10, "How many rotated files are kept.", whole_number(0, 10_000))
    audit_to_database: bool = setting(False, "Also write audit events to the table audit_events.", switch)
    audit_retention_days: int = setting(30, "How long audit events are kept in the database.", whole_number(1, 36_500))
    client_ca_file: Path | None = setting(
        None, "CA of accepted client certificates (PEM); reloaded when it changes.", path
    )
    anonymous_auth: bool = setting(
        True, "Accept requests without credentials as user system:anonymous; false refuses them.", switch
    )
    authentication_config: Path | None = setting(
        None, "AuthenticationConfiguration (apiserver.config.k8s.io/v1) with the external issuers whose tokens are "
        "accepted; reloaded when it changes.", path
    )  # fmt: skip
    service_account_issuer: str = setting(
        "https://kubernetes.default.svc.cluster.local",
        "Issuer of service account tokens in the tenant default, an https URL; for another tenant, /clusters/<tenant> "
        "is appended.", issuer
    )  # fmt: skip
    service_account_jwks_uri: str = setting(
        "", "Where others reach this server for the public keys of those tokens, an https URL without the path "
        "/openid/v1/jwks.", issuer, shown="the address that the request came to"
    )  # fmt: skip
    tenant_host_pattern: str = setting(
        "", "Host names of tenants, such as {tenant}.example.com; /clusters/<tenant> works on every host.",
        host_pattern, shown="none"
    )  # fmt: skip
    plain_http: bool = setting(
        False,
        "Serve HTTP without TLS, behind a proxy that terminates TLS. kubectl sends no token over plain HTTP.",
        switch,
    )
    admin_token_file: Path | None = setting(
        None, "File with the administrator's bearer token.", path, shown="admin-token in the data folder, made once"
    )
    allow_egress_to: tuple[str, ...] = setting(
        (), "Networks that webhooks may be called in, in addition to the public internet, as CIDRs separated by "
        "commas; all other loopback, link-local and private addresses are refused.", networks
    )  # fmt: skip
    webhook_services: tuple[str, ...] = setting(
        (), "Addresses of the services that webhooks name, as name.namespace=host:port, separated by commas.", services
    )
    webhook_service_template: str = setting(
        "", "DNS name of every other service, such as {name}.{namespace}.svc.cluster.local.", shown="none"
    )
    emulate_version: str = setting(
        emulation.DEFAULT, "Version of Kubernetes whose behaviour the server has: " + " or ".join(emulation.NAMES) +
        ". Use the same value in all processes of a database.", one_of(*emulation.NAMES)
    )  # fmt: skip
    cbor: bool = setting(
        False,
        "Also accept and return CBOR: application/cbor, application/apply-patch+cbor, watches as application/cbor-seq, "
        "as kube-apiserver with its feature gate CBORServingAndStorage. Objects are stored as without it.",
        switch,
    )
    serve_apiextensions_v1beta1: bool = setting(
        True, "Also serve definitions in the older form, apiextensions.k8s.io/v1beta1.", switch
    )
    migrate_storage: str = setting(
        "auto",
        "auto: objects stored at an earlier storage version are rewritten at the current one, and the earlier version "
        "is removed from status.storedVersions; off: only when a StorageVersionMigration requests it.",
        one_of("auto", "off"),
    )
    migrate_storage_after_seconds: int = setting(
        600, "Seconds that a definition must be unchanged before its objects are migrated automatically.",
        whole_number(0, 999_999_999)
    )  # fmt: skip
    migrate_storage_rate: int = setting(
        1000, "Maximum number of objects that a process migrates per second.", whole_number(1, 1_000_000)
    )
    shutdown_delay_seconds: int = setting(
        0,
        "How long the server continues to accept connections after the signal to stop, while /readyz fails: as long as "
        "load balancers need to notice.",
        whole_number(0, 3600),
    )
    shutdown_seconds: int = setting(
        30, "How long requests in flight may take to finish when the server stops.", whole_number(0, 3600)
    )
    log_level: str = setting("info", "debug, info, warning or error.", one_of("debug", "info", "warning", "error"))
    log_format: str = setting("text", "text for people, json for machines.", one_of("text", "json"))
    access_log: bool = setting(False, "Log a line for each request: user, verb, resource, code and time.", switch)
    pg_bin: Path | None = setting(
        None, "Folder with PostgreSQL's programs for the embedded server.", path, shown="the system's, else a wheel's"
    )
    postgres_user: str | None = setting(
        None, "Account that runs the embedded PostgreSQL when root starts the server.", shown="postgres, else nobody"
    )
    postgres_port: int | None = setting(
        None,
        "Port on which the embedded PostgreSQL also accepts connections, with TLS and a password, on 127.0.0.1 unless "
        "--postgres-host is given.",
        whole_number(1, 65535),
        shown="its socket only",
    )
    postgres_host: str = setting(
        "",
        "Address on which the embedded PostgreSQL accepts connections from other machines, with TLS only; 0.0.0.0 or "
        ":: for all. The port is 5432 unless --postgres-port is given.",
        shown="127.0.0.1 where a port is given",
    )

    sql_views: bool = setting(
        True, "Keep SQL views of custom resources for reports, and the data that they read (docs/sql.md).", switch
    )

    console: bool = setting(True, "Serve the console, pages for browsers at /console (docs/console.md).", switch)
    console_oidc_client_id: str = setting(
        "",
        "Client id with which the console signs users in at the issuer of --authentication-config that has it among "
        "its audiences. The client is public, and its redirect URI is https://<host>/console/.",
        header_text, shown="no sign-in at an issuer"
    )  # fmt: skip

    def __post_init__(self) -> None:
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise SettingsError("--tls-cert-file and --tls-private-key-file go together")
        if (self.audit_policy_file is None) != (self.audit_log_path is None and not self.audit_to_database):
            raise SettingsError("--audit-policy-file goes together with --audit-log-path or --audit-to-database")
        if self.console_oidc_client_id and self.authentication_config is None:
            raise SettingsError("--console-oidc-client-id needs --authentication-config")
        if self.plain_http and self.tls_cert_file is not None:
            raise SettingsError("--plain-http and --tls-cert-file exclude each other")

    @property
    def admin_token_path(self) -> Path:
        return self.admin_token_file or self.data_dir / "admin-token"

    def admin_token_hash(self) -> bytes:
        """Returns the SHA-256 of the administrator's token, to compare in constant time; reads the file."""
        return hashlib.sha256(self.admin_token_path.read_text().strip().encode()).digest()


@dataclass(frozen=True, slots=True)
class Declaration:
    """One setting as declared in `Settings`."""

    name: str
    default: Any
    help: str
    parse: Callable[[str], Any]
    shown_default: str

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.upper()

    def read(self, text: str, source: str) -> Any:
        try:
            return self.parse(text)
        except ValueError as problem:
            raise SettingsError(f"{source}: {problem}") from problem


def declarations() -> Iterator[Declaration]:
    for field in dataclasses.fields(Settings):
        default_text = field.metadata["shown"]
        if default_text is None:
            default_text = "none" if field.default in (None, ()) else str(field.default).lower()
        yield Declaration(field.name, field.default, field.metadata["help"], field.metadata["parse"], default_text)
