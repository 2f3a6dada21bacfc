"""What is put in the place of something else: values at the borders of types, texts that mean something somewhere."""

from __future__ import annotations

from typing import Any, Final

Json = Any

# Tables of many small values, which the formatter would give a line each.
# fmt: off

NUMBERS: Final = (0, -1, 1, 2, 255, 2**31, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1,
                  2**64,
                  10**40, -(10**40), 10**5000, 1.5, -0.0, 1e308, 1e-320, 0.1, 1e20, 99999999999999999999)
TEXTS: Final = (
    "", " ", "a", "0", "-1", "true", "null", "a\x00b", "\x00", "\ud800", "\ufffd", "\U0001f600", "\u202e", "\ufeff",
    "\x7f",
    "a" * 64, "a" * 254, "x" * 5000, "\u00fc" * 300, "../..", "a/b", "a/b/c", "/", "%", "%00", "%2f", "a b", "a\nb",
    "a\tb",
    "*", "**", ".", "..", "...", "-", "--", "_", "$", "${a}", "{}", "[]", "{0}", "%s", "%(a)s", "\\", "'", '"',
    "'; --", "`",
    "~", "~1", "~2", "#", "?a=b", ";", ":", ",", "=", "!=", "==", "a=b,c=d", "in (a)", "a in (b,c)", "!a", "a notin ()",
    "self", "__class__", "__namespace__", "constructor", "None", "NaN", "Infinity", "1e400", "0x10", "010", "1_000",
    "１",
    "2024-01-01T00:00:00Z", "2024-13-45T99:99:99Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "1h",
    "-1h",
    "100m", "1Gi", "1e3", "99999999999999999999", "0.0000000000000000001", "v1", "v1beta1", "v0",
    "v99999999999999999999",
    "apps/v1", "a/b/v1", "example.com", "https://127.0.0.1:1/", "http://[", "https://a.b.svc:443", "10.0.0.0/8", "::1",
    "::/129",
    "eyJhbGciOiJub25lIn0.e30.", "YQ==", "!!!", "system:masters", "system:serviceaccount:default:default",
    "metadata.name", "spec.replicas", ".spec.replicas", ".a[0].b", "..a", "..", "a" + ".a" * 80, "(" * 200, "[" * 200,
    "[a-z]+", "(a+)+$", "(?=a)", "\\1", "(?P<a>b)", "[[:alpha:]", "a{1000}", "a{1001}", "\\pN", "x*" * 200)
SMALL: Final[tuple[Json, ...]] = (None, True, False, [], {}, [None], [[]], [{}], {"": None}, {"a": {}}, [1, "a", None],
                                  [["a", "b"]],
                                  {"a": [{"b": None}]})

CONTENT_TYPES: Final = (
    "application/json", "application/yaml", "application/merge-patch+json", "application/json-patch+json",
    "application/apply-patch+yaml", "application/strategic-merge-patch+json", "application/vnd.kubernetes.protobuf",
    "application/apply-patch+cbor", "application/cbor", "text/plain", "", "application/json; charset=utf-16",
    "APPLICATION/JSON",
    "application/json;;", "application/yaml; a=\"b", "multipart/form-data",
    "application/json-patch+json; charset=utf-8")
_TYPES: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "*/*", "application/*",
                 "text/plain", "application/cbor", "application/json;stream=watch")
_TRANSFORMS: Final = ("", ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
                      ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ";as=Table;v=v1beta1;g=meta.k8s.io",
                      ";as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", ";as=Table", ";q=0.1", ";q=x",
                      ";pretty=1", ";v=v1", ";keep=metadata.name+spec", ";drop=metadata.managedFields",
                      ";keep=" + "+".join(["a.b"] * 200), ";drop=", ";keep=..")
ACCEPTS: Final = (*(media + form for media in _TYPES for form in _TRANSFORMS), "", ",", ";", "a" * 3000,
                  "application/json," * 200)

# The queries that anything reads, and values that mean something there, in addition to TEXTS.
QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "limit": ("0", "1", "500", "-1", "9" * 19, "9" * 4301, "1.5"),
    "continue": ("", "e30", "a", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"),
    "resourceVersion": ("0", "1", "2", "-1", "9" * 19, "a"), "resourceVersionMatch": ("Exact", "NotOlderThan", "a"),
    "labelSelector": ("query.registry/order-by=metadata.name_desc", "query.registry/offset in (1,2)", "a", "a=b", "!a", "a in (b,c)", "a notin (b),c", "a>1", "a in (", "=", ",", "a==b,c!=d",
                      "a=" + "b" * 64,
                      ",".join(f"a{i}=b" for i in range(200))),
    "fieldSelector": ("metadata.name=a", "metadata.namespace!=b", "spec.a=b", "a", "=",
                      "metadata.name=a,metadata.name=b",
                      "metadata.name=a\\,b", "metadata.name=a\\"),
    "watch": ("true", "1", "false", "x", ""), "allowWatchBookmarks": ("true", "x"),
    "sendInitialEvents": ("true", "false", "x"),
    "timeoutSeconds": ("0", "1", "-1", "9" * 19), "timeout": ("1s", "0", "-1s", "x", "1e9s"),
    "pretty": ("true", "1", "x"),
    "dryRun": ("All", "None", "", "All,All"), "fieldManager": ("m", "a" * 200, "\x00", "\n"),
    "force": ("true", "false", "x"),
    "fieldValidation": ("Strict", "Warn", "Ignore", "x"), "includeObject": ("None", "Object", "Metadata", "x"),
    "gracePeriodSeconds": ("0", "1", "-1", "9" * 19, "x"),
    "propagationPolicy": ("Orphan", "Background", "Foreground", "x"),
    "orphanDependents": ("true", "false", "x"), "deleted": ("true", "false"),
    "atResourceVersion": ("1", "0", "x", "9" * 19),
    "usage": ("true",), "object": ("true", "x"), "diff": ("merge", "json", "none", "x"), "shardSelector": ("a",),
    "filter": ("true", "object.metadata.name == 'a'", "object.spec.a > 1", "object.search('a')", "(" * 500, "1/0 == 1",
               "object.metadata.labels.all(k, k == k)", "object.metadata.name in [" + "'a'," * 500 + "'b']", "now"),
    "orderBy": ("metadata.name", "metadata.creationTimestamp desc", "spec.a", "metadata.labels['a'] desc", "a,a", ","),
    "offset": ("0", "1", "10001", "-1", "9" * 19), "count": ("exact", "estimated", "x", ""),
    "statistics": ("true", "x"), "conditions": ("true", "x"), "dependents": ("true", "x"),
    "sinceSeconds": ("1", "0", "-1", "9" * 19, "1.5"), "buckets": ("1", "500", "501", "0", "x"),
}
HEADERS: Final[dict[str, tuple[str, ...]]] = {
    "accept": ACCEPTS, "content-type": CONTENT_TYPES, "accept-encoding": ("gzip", "br", "gzip;q=0", "a" * 500),
    "content-encoding": ("gzip", "identity", "br"),
    "user-agent": ("", "curl/8", "a" * 300, "\u00fc", "kubectl/v1.36 (linux)"),
    "impersonate-user": ("a", "", "system:anonymous", "system:serviceaccount:default:default", "\u00fc", "a%00b"),
    "impersonate-group": ("system:masters", "", "a"), "impersonate-uid": ("u", ""), "impersonate-extra-a%2fb": ("c",),
    "impersonate-extra-%zz": ("c",), "authorization": ("Bearer", "Bearer a", "Bearer a.b.c", "Basic YTpi", "",
                                                       "Bearer \u00fc"),
    "if-none-match": ('"a"', "*", "a"), "audit-id": ("a", "\u00fc", "a" * 200), "range": ("bytes=0-1",),
    "x-forwarded-for": ("a",), "x-remote-user": ("admin",), "x-http-method-override": ("DELETE",), "cookie": ("a=b",),
}
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT")
SUBRESOURCES: Final = ("status", "scale", "history", "restore", "undelete", "token", "usage", "finalize", "eviction",
                       "approval",
                       "a", "status/a", "")
TENANTS: Final = ("*", "system", "default", "nope", "default,system", "*,system", ",", "A", "a" * 300, "", "%", "a.b")
SEGMENTS: Final = ("watch", "namespaces", "default", "api", "apis", "v1", "configmaps", "secrets", "services",
                   "serviceaccounts",
                   "events", "leases", "roles", "clusterroles", "rolebindings", "apiextensions.k8s.io",
                   "customresourcedefinitions",
                   "rbac.authorization.k8s.io", "authorization.k8s.io", "subjectaccessreviews", "tenancy.registry",
                   "tenants",
                   "admissionregistration.k8s.io", "validatingadmissionpolicies", "storagemigration.k8s.io", "openapi",
                   "v3",
                   "coordination.k8s.io", "events.k8s.io", "query.registry", "queries", "apiregistration.k8s.io",
                   "apiservices", "console", "limitranges", "resourcequotas", "v1beta1", "status", "..",
                   ".", "*")
EXPRESSIONS: Final = (
    "self", "true", "1/0", "self.a", "self == oldSelf", "has(self.a)", "self.all(x, x > 0)", "self.map(x, [x, x])",
    "[1,2][5]",
    "{'a':1}['b']", "'a'.matches('(')", "duration('x')", "timestamp('x')", "int('x')", "int(1e30)", "uint(-1)",
    "'a' + 1",
    "quantity('x')", "url('x')", "ip('x')", "cidr('x')", "semver('x')", "9223372036854775807 + 1",
    "-9223372036854775808 / -1",
    "1 % 0", "'\\u00fc'.charAt(9)", "'a'.substring(5)", "'a'.format([1])", "'%d'.format(['a'])", "'%s %s'.format([1])",
    "optional.of(1).orValue('a')", "self.?a.?b", "type(self)", "dyn(self)", "b'a'", "1u", "1.0/0.0", "[[[[1]]]]",
    "a.b.c",
    "object.spec.a", "oldObject == null", "request.userInfo.username", "params.a",
    "authorizer.group('').resource('a').check('b')",
    "variables.a", "namespaceObject.metadata.name", "Object{spec: Object.spec{a: 1}}", "JSONPatch{op: 'add'}",
    "[1,2,3].sum()",
    "sets.contains([1],[2])", "cel.bind(a, 1, a)", "lists.range(5)", "math.greatest(1)", "'a'.replace('', 'b')",
    "(((((1)))))",
    "1 ? 2 : 3", "!1", "-'a'", "null", "self[0]", "self['a']", "'a' in self", "\"\\x\"", "'''a", "// a", "[1,",
    "{1:2,1:3}")
