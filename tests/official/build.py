"""Compiles the integration suites of Kubernetes against a server that runs already.

    python -m tests.official.build TREE FOLDER [SUITE ...]

TREE is a checkout of kubernetes/kubernetes with its vendor folder, FOLDER is where the compiled programs go, and `go` is on
the PATH. The sources stay as they are: `go test -overlay` puts the packages of overlay/ in the place of those that start
etcd, kube-apiserver and kube-controller-manager. So the suites compile in minutes, without kube-apiserver.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_OVERLAY: Final = Path(__file__).parent / "overlay"
_FIXTURES: Final = "staging/src/k8s.io/apiextensions-apiserver/test/integration"
_TESTS: Final = "test/integration"

# The program of each suite, and its package.
SUITES: Final = {
    "apiextensions": _FIXTURES,
    "conversion": f"{_FIXTURES}/conversion",
    **{name: f"{_TESTS}/apiserver/{name}" for name in ("apply", "cel", "admissionwebhook", "discovery", "openapi")},
    **{
        name: f"{_TESTS}/{name}"
        for name in ("dryrun", "garbagecollector", "namespace", "configmap", "secrets", "events")
    },
    "apiserver": f"{_TESTS}/apiserver",
}

# Packages that ours replace; of these, the files that remain.
_REPLACED: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "cmd/kube-apiserver/app/testing": ("kube_apiserver/testing", ()),
    "cmd/kube-apiserver/app/options": ("kube_apiserver/options", ()),
    "cmd/kube-apiserver/app": ("kube_apiserver/app", ()),
    "pkg/controlplane": ("controlplane", ()),
    "pkg/controller/garbagecollector": ("garbagecollector", ()),
    "pkg/controller/namespace": ("namespace", ()),
    f"{_TESTS}/framework": ("framework", ("cbor.go", "flags.go", "serializer.go")),
    f"{_TESTS}/etcd": ("etcd", ("data.go",)),
    f"{_FIXTURES}/fixtures": ("fixtures", ("resources.go",)),
}

# Changes to tests, as of re.sub: kinds that are not served are replaced by others where the test is not about the kind,
# and etcd by the API. The literal that begins with the expression is removed where there is no replacement.
_Edits = Sequence[tuple[str, str | None]]
# Policies are known to be in effect by an object of a kind that no test is about.
_MARKERS: Final[_Edits] = (
    (r'"endpoints"', '"serviceaccounts"'),
    (r"v1\.Endpoints\b", "v1.ServiceAccount"),
    (r"\(\)\.Endpoints\(", "().ServiceAccounts("),
)
# Webhooks that are called for pods are called for service accounts.
_PODS: Final[_Edits] = (
    (r"Spec: +corev1\.PodSpec\{", None),
    (r"corev1\.Pod\b", "corev1.ServiceAccount"),
    (r"\(\)\.Pods\(", "().ServiceAccounts("),
    (r'"pods"', '"serviceaccounts"'),
    (r'"Pod"', '"ServiceAccount"'),
    # Without a spec it has no managedFields that a webhook could break.
    (r'(Name: +"invalid-managedfields-test-marker",)', r'\1 Labels: map[string]string{"a": "b"},'),
)
# Owners are ResourceQuotas instead of replication controllers, and dependents are Secrets instead of pods.
_OWNERS: Final[_Edits] = (
    (r"Spec: +v1\.(Pod|ReplicationController|PersistentVolume)Spec\{", None),
    (r"ReplicationController", "ResourceQuota"),
    (r"\(\)\.Pods\(", "().Secrets("),
    (r"\bv1\.Pod\b", "v1.Secret"),
    (r'"Pod"', '"Secret"'),
    (r"PersistentVolume", "Namespace"),
    (r'\t"k8s.io/apimachinery/pkg/api/resource"\n', ""),
    # A namespace has its default service account from a controller here.
    (
        r'if err != nil (\{\n\t\tt.Fatalf\("failed to create service account)',
        r"if err != nil && !apierrors.IsAlreadyExists(err) \1",
    ),
)
# Webhooks that want reviews of v1beta1.
_REVIEWS: Final[_Edits] = (
    (
        r"if _, err := etcdClient.Put\(ctx, key, string\(val\)\); err != nil",
        'val = []byte(strings.ReplaceAll(strings.ReplaceAll(string(val), "k8s.io/v1beta1", "k8s.io/v1"), `"Unknown"`, `"None"`))\n'
        "\tif err := client.AdmissionregistrationV1().RESTClient().Post().Resource(path.Base(path.Dir(key)))."
        'SetHeader("Content-Type", "application/json").Body(val).Do(ctx).Error(); err != nil',
    ),
)
# Lists, deletions and connections are tested with ResourceQuotas and others instead of workloads.
_LISTED: Final[_Edits] = (
    (r"Spec: +apps\.ReplicaSetSpec\{", None),
    (r'"ReplicaSet",(\s+APIVersion:\s+)"apps/v1"', r'"ResourceQuota",\1"v1"'),
    (r"apps\.ReplicaSet\b", "v1.ResourceQuota"),
    (r"AppsV1\(\)\.ReplicaSets\(", "CoreV1().ResourceQuotas("),
    (r"appsv1\.ReplicaSetInterface", "corev1.ResourceQuotaInterface"),
    (r'appsv1 ("k8s.io/client-go/kubernetes/typed/)apps/v1"', r"corev1 \1core/v1" + '"'),
    (r'"/apis/apps/v1/namespaces", ns.Name, "replicasets"', '"/api/v1/namespaces", ns.Name, "resourcequotas"'),
    (r'\.Pods\(""\)', '.Secrets("")'),
    (r"DiscoveryV1\(\)\.EndpointSlices\(", "CoordinationV1().Leases("),
    (r"AppsV1\(\)\.Deployments\(", "CoreV1().ConfigMaps("),
    (
        r'"apiVersion": "apps/v1",\s+"kind": "Deployment",(\s+"metadata": \{\s+"name": "deployment",'
        r'\s+"labels": \{"app": "nginx"\}\s+\}),\s+"spec": \{[^`]*`',
        r'"apiVersion": "v1", "kind": "ConfigMap",\1}`',
    ),
    (r'"/apis/apps/v1"(\)\.\s+Namespace\("default"\)\.\s+Resource\()"deployments"', r'"/api/v1"\1"configmaps"'),
)
# Applies that are not about pods are those of ConfigMaps.
_APPLIED: Final[_Edits] = (
    (r'"spec": \{\s*"containers": \[\{[^\]]*\}\]\s*\}', '"data": {"a": "b"}'),
    (r'"pods"', '"configmaps"'),
    (r'`pods "test-pod"', '`configmaps "test-pod"'),
    (r'"Pod"', '"ConfigMap"'),
)
# A namespace that cannot be deleted contains a Secret instead of a Deployment.
_KEPT: Final[_Edits] = (
    (r'\tappsv1 "k8s.io/api/apps/v1"\n', ""),
    (r'appsv1\.SchemeGroupVersion\.WithResource\("deployments"\)', 'corev1.SchemeGroupVersion.WithResource("secrets")'),
    (r'"apps/v1", "Deployment"', '"v1", "Secret"'),
    (r"deployments\.apps has", "secrets. has"),
    (r'"pods"', '"configmaps"'),
    (r'"Pod"', '"ConfigMap"'),
)
_WEBHOOKS: Final = f"{_TESTS}/apiserver/admissionwebhook"
_EDITED: Final[Mapping[str, _Edits]] = {
    f"{_TESTS}/apiserver/cel/validatingadmissionpolicy_test.go": _MARKERS,
    f"{_TESTS}/apiserver/cel/mutatingadmissionpolicy_test.go": _MARKERS,
    f"{_TESTS}/garbagecollector/garbage_collector_test.go": _OWNERS,
    f"{_TESTS}/garbagecollector/cluster_scoped_owner_test.go": _OWNERS,
    f"{_TESTS}/utils.go": ((r"coreclient\.PodInterface", "coreclient.SecretInterface"),),
    f"{_WEBHOOKS}/admission_test.go": _REVIEWS,
    f"{_TESTS}/apiserver/apiserver_test.go": _LISTED,
    f"{_TESTS}/apiserver/apply/apply_test.go": _APPLIED,
    f"{_TESTS}/namespace/ns_conditions_test.go": _KEPT,
    **{
        f"{_WEBHOOKS}/{name}_test.go": _PODS
        for name in (
            "client_auth",
            "duplicate_owner_ref",
            "invalid_managedFields",
            "load_balance",
            "match_conditions",
            "mutating_webhook_gvk_conversion",
            "timeout",
        )
    },
}


# Files that need what is not there, with what they test.
_LEFT_OUT: Final = {
    f"{_TESTS}/apiserver/apply/scale_test.go": "scales of workloads",
    f"{_TESTS}/apiserver/cel/typeresolution_test.go": "a Go package, without a server",
    f"{_TESTS}/apiserver/openapi/openapi_enum_test.go": "the feature gate of enums",
    f"{_TESTS}/apiserver/health_handlers_test.go": "etcd",
    f"{_TESTS}/apiserver/print_test.go": "printers of workloads",
    f"{_TESTS}/apiserver/watchcache_test.go": "etcd",
    "test/utils/conditions.go": "workloads",
    "test/utils/delete_resources.go": "workloads",
    "test/utils/deployment.go": "workloads",
    "test/utils/replicaset.go": "workloads",
    "test/utils/runners.go": "workloads",
}


def overlay(tree: Path, folder: Path) -> dict[str, str]:
    """Returns which file is read in the place of which: `{"/tree/cmd/a.go": ""}` leaves one out. Edited ones go to `folder`."""
    found = {str(tree / path): "" for path in _LEFT_OUT}
    for number, (path, edits) in enumerate(_EDITED.items()):
        edited = folder / f"{number}.go"
        edited.write_text(_edit((tree / path).read_text(), edits))
        found[str(tree / path)] = str(edited)
    for package, (ours, kept) in _REPLACED.items():
        found |= {str(path): "" for path in (tree / package).glob("*.go") if path.name not in kept}
        found |= {str(tree / package / path.name): str(path) for path in (_OVERLAY / ours).glob("*.go")}
    return found


def _edit(text: str, edits: _Edits) -> str:
    for old, new in edits:
        text = re.sub(old, new, text) if new is not None else _without_literals(text, old)
    return text


def _without_literals(text: str, beginning: str) -> str:
    """Removes composite literals from their beginning, `Spec: v1.PodSpec{`, to the comma after their last brace."""
    while found := re.search(beginning, text):
        end, depth = found.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[: found.start()] + text[end:].removeprefix(",")
    return text


def build(tree: Path, folder: Path, suites: Sequence[str]) -> None:
    """Compiles the suites one after the other; raises CalledProcessError where one cannot be compiled."""
    with tempfile.TemporaryDirectory() as temporary:
        file = Path(temporary) / "overlay.json"
        file.write_text(json.dumps({"Replace": overlay(tree, file.parent)}))
        for suite in suites:
            subprocess.run(
                ["go", "test", "-c", "-overlay", file, "-o", folder / f"{suite}.test", f"./{SUITES[suite]}"],
                cwd=tree,
                env={
                    "CGO_ENABLED": "0",
                    "GOFLAGS": "-mod=vendor",
                    "GOPROXY": "off",
                    "GOTOOLCHAIN": "local",
                    **os.environ,
                },
                check=True,
            )


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), sys.argv[3:] or list(SUITES))
