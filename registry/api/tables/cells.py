"""The cells of tables of built-in kinds, by the names that builtin.yaml calls them.

Follows kubernetes pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from registry.api.tables.table import age as human_age

Json = Any
Object = Mapping[str, Json]
# The value of a cell for an object at a time.
Cell = Callable[[Object, float], Json]


def cell_of(declared: str | Mapping[str, Any]) -> Cell:
    """Returns the cell that a column declares: `.spec.type`, `ports`, or with an argument `{length: [.data]}`."""
    if not isinstance(declared, str):
        [(function, argument)] = declared.items()
        return _MAKERS[function](argument)
    return at(declared) if declared.startswith(".") else _CELLS[declared]


def name(obj: Object, now: float) -> str:
    return str(obj["metadata"].get("name", ""))


def creation_time(obj: Object, now: float) -> str:
    """The time as Go formats it; the object of a bookmark has none."""
    return obj["metadata"].get("creationTimestamp") or "0001-01-01T00:00:00Z"


def age(obj: Object, now: float) -> str:
    return human_age(obj["metadata"].get("creationTimestamp") or "", now)


def at(path: str) -> Cell:
    """Returns a cell with the text at a path such as `.spec.type`, any part of which may be missing or null."""
    names = _names(path)
    return lambda obj, now: _walk(obj, names) or ""


def _names(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _walk(obj: Json, path: tuple[str, ...]) -> Json:
    for name in path:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj


def ports(obj: Object, now: float) -> str:
    """`80/TCP,443:30443/TCP`, with node ports."""
    return ",".join(_port(port) for port in _walk(obj, ("spec", "ports")) or ()) or "<none>"


def _port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol') or 'TCP'}"


def cluster_ip(obj: Object, now: float) -> str:
    spec = obj.get("spec") or {}
    return next(iter(spec.get("clusterIPs") or ()), spec.get("clusterIP") or "<none>")


def external_ip(obj: Object, now: float) -> str:
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


def selector(obj: Object, now: float) -> str:
    selector = _walk(obj, ("spec", "selector")) or {}
    return ",".join(f"{name}={selector[name]}" for name in sorted(selector)) or "<none>"


def length(paths: Sequence[str]) -> Cell:
    """Returns a cell with the number of members or items at some paths together."""
    parsed = [_names(path) for path in paths]
    return lambda obj, now: sum(len(_walk(obj, path) or ()) for path in parsed)


def role(obj: Object, now: float) -> str:
    # A bookmark has no roleRef.
    return f"{_walk(obj, ('roleRef', 'kind')) or ''}/{_walk(obj, ('roleRef', 'name')) or ''}"


def subjects(kind: str) -> Cell:
    def cell(obj: Object, now: float) -> str:
        subjects = [subject for subject in obj.get("subjects") or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in subjects)
        return ", ".join(subject.get("name", "") for subject in subjects)

    return cell


def quota(which: str) -> Cell:
    """`pods: 1/3, requests.cpu: 0/1`: used and hard amounts; those of limits.* are in the column of `limits`."""
    limits = which == "limits"

    def cell(obj: Object, now: float) -> str:
        hard, used = _walk(obj, ("status", "hard")) or {}, _walk(obj, ("status", "used")) or {}
        return ", ".join(
            f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard) if name.startswith("limits.") is limits
        )

    return cell


def param_kind(obj: Object, now: float) -> str:
    kind = _walk(obj, ("spec", "paramKind"))
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def param_ref(obj: Object, now: float) -> str:
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


def first_seen_age(obj: Object, now: float) -> str:
    return human_age(_first(obj, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime") or "", now)


def last_seen_age(obj: Object, now: float) -> str:
    if (series := obj.get("series")) is not None:
        return human_age(series.get("lastObservedTime") or "", now)
    last = _first(obj, "lastTimestamp", "deprecatedLastTimestamp")
    return human_age(last, now) if last else first_seen_age(obj, now)


def times(obj: Object, now: float) -> int:
    if (series := obj.get("series")) is not None:
        return series.get("count") or 0
    return _first(obj, "count", "deprecatedCount") or 1


def _involved_object(obj: Object) -> Object:
    return _first(obj, "involvedObject", "regarding") or {}


def regarding(obj: Object, now: float) -> str:
    involved = _involved_object(obj)
    kind, name = str(involved.get("kind", "")).lower(), involved.get("name")
    return f"{kind}/{name}" if name else kind


def source(obj: Object, now: float) -> str:
    source = _first(obj, "source", "deprecatedSource") or {}
    component = source.get("component") or _first(obj, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def field_path(obj: Object, now: float) -> str:
    return str(_involved_object(obj).get("fieldPath", ""))


def message(obj: Object, now: float) -> str:
    return (_first(obj, "message", "note") or "").strip()


# --- definitions, storage migrations, APIServices


def served_versions(obj: Object, now: float) -> str:
    """`v1(storage),v1beta1`."""
    versions = [version for version in _walk(obj, ("spec", "versions")) or () if version.get("served")]
    return ",".join(sorted(v.get("name", "") + ("(storage)" if v.get("storage") else "") for v in versions))


def short_names(obj: Object, now: float) -> str:
    return ",".join(_walk(obj, ("spec", "names", "shortNames")) or ())


def is_established(obj: Object, now: float) -> bool:
    conditions = _walk(obj, ("status", "conditions")) or ()
    return any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions)


def migrated_resource(obj: Object, now: float) -> str:
    """`crontabs.stable.example.com`; in the core group just `configmaps`."""
    resource = _walk(obj, ("spec", "resource")) or {}
    return ".".join(part for part in (resource.get("resource"), resource.get("group")) if part)


_MIGRATION_OUTCOMES = frozenset({"Running", "Failed", "Succeeded"})


def migration_status(obj: Object, now: float) -> str:
    """The type of the last condition that is true: Running, Failed or Succeeded."""
    conditions = _walk(obj, ("status", "conditions")) or ()
    reached = [c["type"] for c in conditions if c.get("status") == "True" and c.get("type") in _MIGRATION_OUTCOMES]
    return reached[-1] if reached else "Unknown"


def api_server(obj: Object, now: float) -> str:
    """`kube-system/metrics`, the service that an APIService names."""
    service = _walk(obj, ("spec", "service"))
    return f"{service.get('namespace', '')}/{service.get('name', '')}" if service is not None else "Local"


def availability(obj: Object, now: float) -> str:
    """`True`, or `False (FailedDiscoveryCheck)`."""
    for condition in _walk(obj, ("status", "conditions")) or ():
        if condition.get("type") == "Available":
            status, reason = condition.get("status") or "", condition.get("reason")
            return f"{status} ({reason})" if reason and status != "True" else status
    return "Unknown"


_MAKERS: Final[Mapping[str, Callable[[Any], Cell]]] = {"length": length, "subjects": subjects, "quota": quota}
_CELLS: Final[Mapping[str, Cell]] = {
    cell.__name__: cell
    for cell in (
        name,
        creation_time,
        age,
        ports,
        cluster_ip,
        external_ip,
        selector,
        role,
        param_kind,
        param_ref,
        first_seen_age,
        last_seen_age,
        times,
        regarding,
        source,
        field_path,
        message,
        served_versions,
        short_names,
        is_established,
        migrated_resource,
        migration_status,
        api_server,
        availability,
    )
}
