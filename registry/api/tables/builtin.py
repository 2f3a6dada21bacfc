"""Tables of built-in kinds: what kubectl shows of config maps, namespaces, bindings and the like.

    builtin_table("", "ConfigMap").row(obj, now)["cells"]      # ["a", 2, "5d6h"]

Other kinds have Name and Created At. The descriptions are those of the API's documentation, as clients show them.
Follows kubernetes pkg/printers/internalversion/printers.go and apiserver
pkg/registry/rest/table.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from registry.api.tables.table import CREATED_DESCRIPTION, NAME_DESCRIPTION, Table, age, column_definition
from registry.emulation import emulated

Json = Any
Object = Mapping[str, Json]
# The value of a cell for an object at a time.
Cell = Callable[[Object, float], Json]


def builtin_table(group: str, kind: str) -> Table:
    if emulated().is_1_37 and (group, kind) == ("apiextensions.k8s.io", "CustomResourceDefinition"):
        return _DEFINITIONS
    return _TABLES.get((group, kind), _DEFAULT)


def _table(*columns: tuple[dict[str, Json], Cell]) -> Table:
    cells = [cell for _, cell in columns]
    definitions = [definition for definition, _ in columns]
    return Table(definitions, lambda obj, now, budget: [cell(obj, now) for cell in cells], [])


def _text(name: str, description: str, cell: Cell, priority: int = 0) -> tuple[dict[str, Json], Cell]:
    return column_definition(name, priority=priority, description=description), cell


def _count(name: str, description: str, cell: Cell) -> tuple[dict[str, Json], Cell]:
    return column_definition(name, "integer", description=description), cell


# --- cells


def _name(obj: Object, now: float) -> str:
    return str(obj["metadata"].get("name", ""))


def _created_age(obj: Object, now: float) -> str:
    return obj["metadata"].get("creationTimestamp") or ""


def _age(obj: Object, now: float) -> str:
    return age(_created_age(obj, now), now)


def _at(*path: str, default: str = "") -> Cell:
    """Returns a cell with the text at a path, any part of which may be missing or null."""

    def cell(obj: Object, now: float) -> Json:
        return _walk(obj, path) or default

    return cell


def _walk(obj: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj


def _ports(obj: Object, now: float) -> str:
    """`80/TCP,443:30443/TCP`, with node ports."""
    return ",".join(_port(port) for port in _walk(obj, ("spec", "ports")) or ()) or "<none>"


def _port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}"


def _cluster_ip(obj: Object, now: float) -> str:
    spec = obj.get("spec") or {}
    return next(iter(spec.get("clusterIPs") or ()), spec.get("clusterIP") or "<none>")


def _external_ip(obj: Object, now: float) -> str:
    """The addresses outside of the cluster: those of the load balancer, sorted, then the given ones."""
    spec = obj.get("spec") or {}
    external = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ExternalName":
            return str(spec.get("externalName") or "")
        case "LoadBalancer":
            ingress = _walk(obj, ("status", "loadBalancer", "ingress")) or ()
            addresses = {one.get("ip") or one.get("hostname") for one in ingress} - {None, ""}
            return ",".join([*sorted(addresses), *external]) or "<pending>"
        case "ClusterIP" | "NodePort":
            return ",".join(external) or "<none>"
        case _:
            return "<unknown>"


def _selector(obj: Object, now: float) -> str:
    selector = _walk(obj, ("spec", "selector")) or {}
    return ",".join(f"{name}={selector[name]}" for name in sorted(selector)) or "<none>"


def _size(*paths: tuple[str, ...]) -> Cell:
    return lambda obj, now: sum(len(_walk(obj, path) or ()) for path in paths)


def _role(obj: Object, now: float) -> str:
    # A bookmark has no roleRef.
    return f"{_walk(obj, ('roleRef', 'kind')) or ''}/{_walk(obj, ('roleRef', 'name')) or ''}"


def _subjects(kind: str) -> Cell:
    def cell(obj: Object, now: float) -> str:
        subjects = [subject for subject in obj.get("subjects") or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in subjects)
        return ", ".join(subject.get("name", "") for subject in subjects)

    return cell


def _quota(limits: bool) -> Cell:
    """`pods: 1/3, requests.cpu: 0/1`: used and hard amounts; limits.* have their own column."""

    def cell(obj: Object, now: float) -> str:
        hard, used = _walk(obj, ("status", "hard")) or {}, _walk(obj, ("status", "used")) or {}
        return ", ".join(
            f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard) if name.startswith("limits.") is limits
        )

    return cell


def _param_kind(obj: Object, now: float) -> str:
    kind = _walk(obj, ("spec", "paramKind"))
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def _param_ref(obj: Object, now: float) -> str:
    """`default/limits`, `*/limits` without a namespace, or the selector as Go prints it."""
    ref = _walk(obj, ("spec", "paramRef")) or {}
    if name := ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{name}"
    selector = ref.get("selector")
    return _go_selector(selector) if selector is not None else "<unset>"


def _go_selector(selector: Object) -> str:
    """A metav1.LabelSelector as its String method prints it."""
    labels = selector.get("matchLabels") or {}
    requirements = (
        f"LabelSelectorRequirement{{Key:{one.get('key', '')},Operator:{one.get('operator', '')},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{''.join(f'{k}: {labels[k]},' for k in sorted(labels))}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{''.join(requirements)}}},}}"
    )


# --- events, of the core group or of events.k8s.io


def _first(obj: Object, *names: str) -> Json:
    return next((obj[name] for name in names if obj.get(name)), None)


def _first_seen_age(obj: Object, now: float) -> str:
    return age(_first(obj, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime") or "", now)


def _last_seen_age(obj: Object, now: float) -> str:
    observed = _walk(obj, ("series", "lastObservedTime"))
    last = observed or _first(obj, "lastTimestamp", "deprecatedLastTimestamp")
    return age(last, now) if last else _first_seen_age(obj, now)


def _times(obj: Object, now: float) -> int:
    return _walk(obj, ("series", "count")) or _first(obj, "count", "deprecatedCount") or 1


def _involved_object(obj: Object) -> Object:
    return _first(obj, "involvedObject", "regarding") or {}


def _object(obj: Object, now: float) -> str:
    involved = _involved_object(obj)
    kind, name = str(involved.get("kind", "")).lower(), involved.get("name")
    return f"{kind}/{name}" if name else kind


def _source(obj: Object, now: float) -> str:
    source = _first(obj, "source", "deprecatedSource") or {}
    component = source.get("component") or _first(obj, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _message(obj: Object, now: float) -> str:
    return (_first(obj, "message", "note") or "").strip()


# --- tables

_NAME = column_definition("Name", format="name", description=NAME_DESCRIPTION), _name
_AGE = _text("Age", CREATED_DESCRIPTION, _age)
_CREATED_AT = column_definition("Created At", "date", description=CREATED_DESCRIPTION), _created_age

_DEFAULT = Table([_NAME[0], _CREATED_AT[0]], lambda obj, now, budget: [_name(obj, now), _created_age(obj, now)], None)


def _served_versions(obj: Object, now: float) -> str:
    """`v1(storage),v1beta1`."""
    versions = [version for version in _walk(obj, ("spec", "versions")) or () if version.get("served")]
    return ",".join(sorted(v.get("name", "") + ("(storage)" if v.get("storage") else "") for v in versions))


def _is_established(obj: Object, now: float) -> bool:
    conditions = _walk(obj, ("status", "conditions")) or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


# Columns of definitions from 1.37 on (apiextensions-apiserver pkg/registry/customresourcedefinition/tableconvertor).
_DEFINITIONS = _table(
    _NAME,
    _text("Scope", "Cluster/Namespaced", _at("spec", "scope")),
    _text("Versions", "Served versions", _served_versions),
    _CREATED_AT,
    _text("Group", "API group", _at("spec", "group"), 1),
    _text("Kind", "CustomResource kind", _at("spec", "names", "kind"), 1),
    _text("ShortNames", "Short names", lambda obj, now: ",".join(_walk(obj, ("spec", "names", "shortNames")) or ()), 1),
    (column_definition("Established", "boolean", priority=1, description="Established status"), _is_established),
)

_CONFIG_MAP_DATA = (
    "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. Values "
    "with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap with the "
    "keys in the BinaryData field, this is enforced during validation process."
)
_SECRET_TYPE = (
    "Used to facilitate programmatic handling of secret data. More info: "
    "https://kubernetes.io/docs/concepts/configuration/secret/#secret-types"
)
_SECRET_DATA = (
    "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized "
    "form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value "
    "here. Described in https://tools.ietf.org/html/rfc4648#section-4"
)
_HOLDER = (
    "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, "
    "the holder identity must be equal to the elected LeaseCandidate.metadata.name field."
)
_ROLE_REF = (
    "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef "
    "cannot be resolved, the Authorizer must return an error."
)
_CLUSTER_ROLE_REF = (
    "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the "
    "Authorizer must return an error."
)
_FIELD_PATH = (
    "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go "
    "field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to "
    'a container within a pod, this would take on a value like: "spec.containers{name}" (where "name" refers to the '
    'name of the container that triggered the event) or if no container name is specified "spec.containers[2]" '
    "(container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a "
    "part of an object."
)

_SERVICE_TYPE = (
    "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are ExternalName, ClusterIP, "
    'NodePort, and LoadBalancer. "ClusterIP" allocates a cluster-internal IP address for load-balancing to '
    "endpoints. Endpoints are determined by the selector or if that is not specified, by manual construction of an "
    'Endpoints object or EndpointSlice objects. If clusterIP is "None", no virtual IP is allocated and the endpoints '
    'are published as a set of endpoints rather than a virtual IP. "NodePort" builds on ClusterIP and allocates a '
    'port on every node which routes to the same endpoints as the clusterIP. "LoadBalancer" builds on NodePort and '
    "creates an external load-balancer (if supported in the current cloud) which routes to the same endpoints as the "
    'clusterIP. "ExternalName" aliases this service to the specified externalName. Several other fields do not apply '
    "to ExternalName services. More info: "
    "https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types"
)
_CLUSTER_IP = (
    "clusterIP is the IP address of the service and is usually assigned randomly. If an address is specified "
    "manually, is in-range (as per system configuration), and is not in use, it will be allocated to the service; "
    "otherwise creation of the service will fail. This field may not be changed through updates unless the type "
    "field is also being changed to ExternalName (which requires this field to be blank) or the type field is being "
    "changed from ExternalName (in which case this field may optionally be specified, as describe above).  Valid "
    'values are "None", empty string (""), or a valid IP address. Setting this to "None" makes a "headless service" '
    "(no virtual IP), which is useful when direct endpoint connections are preferred and proxying is not required.  "
    "Only applies to types ClusterIP, NodePort, and LoadBalancer. If this field is specified when creating a Service "
    "of type ExternalName, creation will fail. This field will be wiped when updating a Service to type "
    "ExternalName. More info: "
    "https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies"
)
_EXTERNAL_IPS = (
    "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service. "
    " These IPs are not managed by Kubernetes.  The user is responsible for ensuring that traffic arrives at a node "
    "with this IP.  A common example is external load-balancers that are not part of the Kubernetes system."
)
_PORTS = (
    "The list of ports that are exposed by this service. More info: "
    "https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies"
)
_SERVICE_SELECTOR = (
    "Route service traffic to pods with label keys and values matching this selector. If empty or not present, the "
    "service is assumed to have an external process managing its endpoints, which Kubernetes will not modify. Only "
    "applies to types ClusterIP, NodePort, and LoadBalancer. Ignored if type is ExternalName. More info: "
    "https://kubernetes.io/docs/concepts/services-networking/service/"
)


def _bindings(role: str, where: str) -> Table:
    return _table(
        _NAME,
        _text("Role", role, _role),
        _AGE,
        _text("Users", f"Users in the {where}", _subjects("User"), 1),
        _text("Groups", f"Groups in the {where}", _subjects("Group"), 1),
        _text("ServiceAccounts", f"ServiceAccounts in the {where}", _subjects("ServiceAccount"), 1),
    )


def _policies(column: str, description: str, size: tuple[str, ...]) -> Table:
    return _table(
        _NAME,
        _count(column, description, _size(size)),
        _text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy", _param_kind),
        _AGE,
    )


_POLICY_BINDINGS = _table(
    _NAME,
    _text(
        "PolicyName",
        "PolicyName indicates the policy definition which the policy binding binded to",
        _at("spec", "policyName"),
    ),
    _text("ParamRef", "ParamRef indicates the param resource which sets the configuration param", _param_ref),
    _AGE,
)

_WEBHOOKS = _table(
    _NAME,
    _count(
        "Webhooks", "Webhooks indicates the number of webhooks registered in this configuration", _size(("webhooks",))
    ),
    _AGE,
)

_EVENTS = _table(
    _text("Last Seen", "The time at which the most recent occurrence of this event was recorded.", _last_seen_age),
    _text("Type", "Type of this event (Normal, Warning), new types could be added in the future", _at("type")),
    _text(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition "
        "into the object's current status.",
        _at("reason"),
    ),
    _text("Object", "The object that this event is about.", _object),
    _text("Subobject", _FIELD_PATH, lambda obj, now: _involved_object(obj).get("fieldPath", ""), 1),
    _text("Source", "The component reporting this event. Should be a short machine understandable string.", _source, 1),
    _text("Message", "A human-readable description of the status of this operation.", _message),
    _text(
        "First Seen",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
        _first_seen_age,
        1,
    ),
    _text("Count", "The number of times this event has occurred.", _times, 1),
    (column_definition("Name", format="name", priority=1, description=NAME_DESCRIPTION), _name),
)

_RBAC, _ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"


def _migrated_resource(obj: Object, now: float) -> str:
    """`crontabs.stable.example.com`; in the core group just `configmaps`."""
    resource = _walk(obj, ("spec", "resource")) or {}
    return ".".join(part for part in (resource.get("resource"), resource.get("group")) if part)


_MIGRATION_OUTCOMES = frozenset({"Running", "Failed", "Succeeded"})


def _migration_status(obj: Object, now: float) -> str:
    """The type of the last condition that is true: Running, Failed or Succeeded."""
    conditions = _walk(obj, ("status", "conditions")) or ()
    reached = [c["type"] for c in conditions if c.get("status") == "True" and c.get("type") in _MIGRATION_OUTCOMES]
    return reached[-1] if reached else "Unknown"


def _api_server(obj: Object, now: float) -> str:
    """`kube-system/metrics`, the service that an APIService names."""
    service = _walk(obj, ("spec", "service"))
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service is not None else "Local"


def _availability(obj: Object, now: float) -> str:
    """`True`, or `False (FailedDiscoveryCheck)`."""
    for condition in _walk(obj, ("status", "conditions")) or ():
        if condition.get("type") == "Available":
            status, reason = condition.get("status") or "", condition.get("reason")
            return f"{status} ({reason})" if reason and status != "True" else status
    return "Unknown"


_TABLES: dict[tuple[str, str], Table] = {
    ("", "ConfigMap"): _table(_NAME, _text("Data", _CONFIG_MAP_DATA, _size(("data",), ("binaryData",))), _AGE),
    ("", "Secret"): _table(
        _NAME, _text("Type", _SECRET_TYPE, _at("type")), _text("Data", _SECRET_DATA, _size(("data",))), _AGE
    ),
    ("", "Service"): _table(
        _NAME,
        _text("Type", _SERVICE_TYPE, _at("spec", "type")),
        _text("Cluster-IP", _CLUSTER_IP, _cluster_ip),
        _text("External-IP", _EXTERNAL_IPS, _external_ip),
        _text("Port(s)", _PORTS, _ports),
        _AGE,
        _text("Selector", _SERVICE_SELECTOR, _selector, 1),
    ),
    ("", "ServiceAccount"): _table(_NAME, _AGE),
    ("", "Namespace"): _table(_NAME, _text("Status", "The status of the namespace", _at("status", "phase")), _AGE),
    ("", "ResourceQuota"): _table(
        _NAME,
        _text(
            "Request",
            "Request represents a minimum amount of cpu/memory that a container may consume.",
            _quota(limits=False),
        ),
        _text(
            "Limit",
            "Limits control the maximum amount of cpu/memory that a container may use independent of "
            "contention on the node.",
            _quota(limits=True),
        ),
        _AGE,
    ),
    ("", "Event"): _EVENTS,
    ("events.k8s.io", "Event"): _EVENTS,
    ("coordination.k8s.io", "Lease"): _table(_NAME, _text("Holder", _HOLDER, _at("spec", "holderIdentity")), _AGE),
    ("apiregistration.k8s.io", "APIService"): _table(
        _NAME,
        _text("Service", "The reference to the service that hosts this API endpoint.", _api_server),
        _text("Available", "Whether this service is available.", _availability),
        _AGE,
    ),
    (_RBAC, "RoleBinding"): _bindings(_ROLE_REF, "roleBinding"),
    (_RBAC, "ClusterRoleBinding"): _bindings(_CLUSTER_ROLE_REF, "clusterRoleBinding"),
    (_ADMISSION, "ValidatingAdmissionPolicy"): _policies(
        "Validations",
        "Validations indicates the number of validation rules defined in this configuration",
        ("spec", "validations"),
    ),
    (_ADMISSION, "MutatingAdmissionPolicy"): _policies(
        "Mutations",
        "Mutation indicates the number of mutations rules defined in this configuration",
        ("spec", "mutations"),
    ),
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _POLICY_BINDINGS,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): _POLICY_BINDINGS,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _WEBHOOKS,
    (_ADMISSION, "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("storagemigration.k8s.io", "StorageVersionMigration"): _table(
        _text("Name", NAME_DESCRIPTION, _name),
        _text("Resource", "GroupResource to migrate", _migrated_resource),
        _text("Status", "Status of the migration", _migration_status),
    ),
}
