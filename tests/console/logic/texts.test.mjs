import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf, conditionsOf, conditionSpans, quotaLines } from "../../../registry/console/static/logic/changes.js";
import { layout } from "../../../registry/console/static/logic/graph.js";
import { contextsOf, tenantOfServer } from "../../../registry/console/static/logic/kubeconfig.js";
import { kindOfReference, kindsOf, searchKinds } from "../../../registry/console/static/logic/kinds.js";
import { formatFieldPath, parseFieldPath, resourcePath } from "../../../registry/console/static/logic/paths.js";
import { formatRoute, parseRoute } from "../../../registry/console/static/logic/routes.js";
import { niceTicks, timeTicks } from "../../../registry/console/static/logic/scales.js";
import { columnName, columnsOf, exampleQueries, viewName } from "../../../registry/console/static/logic/sql.js";
import { ageOf, bytesText, plural } from "../../../registry/console/static/logic/text.js";
import { parseYaml, pathOfLine, rangeOf, toYaml, withoutManagedFields, withResourceVersion } from "../../../registry/console/static/logic/yamldoc.js";

for (const route of [
  { tenant: "~", page: "overview", args: [], query: {} },
  { tenant: "acme", page: "objects", args: ["a.example", "v1", "widgets"], query: { ns: "shop", labels: "a=b,c" } },
  { tenant: "acme", page: "object", args: ["core", "v1", "configmaps", "n", "a:b%2F<script>"], query: {} },
]) {
  test(`a route is read as it was written: ${formatRoute(route)}`, () => assert.deepEqual(parseRoute(formatRoute(route)), route));
}

test("a broken route is some page", () => {
  assert.deepEqual(parseRoute("#/%E0%A4%A/x"), { tenant: "%E0%A4%A", page: "x", args: [], query: {} });
  assert.equal(parseRoute("").page, "overview");
});

test("paths of the API are escaped", () => {
  const kind = { group: "g.example", version: "v1", plural: "widgets", namespaced: true };
  assert.equal(resourcePath("acme", kind, { namespace: "n", name: "../x?y", query: { limit: 5, continue: "" } }), "/clusters/acme/apis/g.example/v1/namespaces/n/widgets/..%2Fx%3Fy?limit=5");
  assert.equal(resourcePath("~", { group: "", version: "v1", plural: "namespaces" }, { namespace: "n" }), "/api/v1/namespaces");
});

for (const [text, path] of [
  ["spec.rules[0].host", ["spec", "rules", 0, "host"]],
  ["metadata.labels[a.b/c]", ["metadata", "labels", "a.b/c"]],
  ['spec.list[{"name":"a"}]', ["spec", "list", '{"name":"a"}']],
  ["<nil>", []], ["", []],
]) {
  test(`the path of a cause: ${text}`, () => assert.deepEqual(parseFieldPath(text), path));
}

test("a path for people", () => assert.equal(formatFieldPath(["spec", "a", 0, "x.y/z"]), "spec.a[0][x.y/z]"));

const DISCOVERY = { items: [
  { metadata: { name: "demo.example.com" }, versions: [
    { version: "v2", resources: [{ resource: "backups", responseKind: { kind: "Backup" }, scope: "Namespaced", verbs: ["list"], shortNames: ["bk"], categories: ["demo"], subresources: [{ subresource: "status" }] }] },
    { version: "v1", resources: [{ resource: "backups", responseKind: { kind: "Backup" }, scope: "Namespaced", verbs: ["list"] }, { resource: "old", responseKind: { kind: "Old" }, scope: "Cluster", verbs: ["list"] }] },
  ] },
  { versions: [{ version: "v1", resources: [{ resource: "configmaps", responseKind: { kind: "ConfigMap" }, scope: "Namespaced", verbs: ["list"], shortNames: ["cm"] }] }] },
] };

test("kinds of discovery: the first version of each resource is preferred", () => {
  const kinds = kindsOf([DISCOVERY]);
  assert.deepEqual(kinds.map((one) => [one.group, one.version, one.plural, one.preferred]), [["", "v1", "configmaps", true], ["demo.example.com", "v2", "backups", true], ["demo.example.com", "v1", "backups", false], ["demo.example.com", "v1", "old", true]]);
  assert.equal(kindOfReference(kinds, "demo.example.com/v1", "Backup").version, "v1");
  assert.equal(kindOfReference(kinds, "demo.example.com/v9", "Backup").version, "v2");
  assert.equal(kindOfReference(kinds, "v1", "ConfigMap").plural, "configmaps");
  assert.equal(kindOfReference(kinds, "v1", "Nope"), undefined);
});

for (const [text, first] of [["bk", "backups"], ["cm", "configmaps"], ["config", "configmaps"], ["demo", "backups"], ["backups.demo.example.com", "backups"]]) {
  test(`search kinds: ${text}`, () => assert.equal(searchKinds(kindsOf([DISCOVERY]), text)[0].plural, first));
}

const KUBECONFIG = {
  "current-context": "b",
  clusters: [{ name: "c", cluster: { server: "https://h:6443/clusters/acme" } }],
  users: [{ name: "t", user: { token: "abc" } }, { name: "x", user: { "client-certificate-data": "…" } }, { name: "e", user: { exec: {} } }],
  contexts: [{ name: "a", context: { cluster: "c", user: "x" } }, { name: "b", context: { cluster: "c", user: "t" } }, { name: "d", context: { cluster: "c", user: "e" } }],
};

test("contexts of a kubeconfig: those with a token can be used, the others say why not", () => {
  const [a, b, d] = contextsOf(KUBECONFIG);
  assert.match(a.problem, /client certificate, which a page cannot use/);
  assert.deepEqual([b.token, b.tenant, b.problem, b.current], ["abc", "acme", "", true]);
  assert.match(d.problem, /program/);
  for (const other of [null, 5, {}, { contexts: "x" }, { contexts: [null] }]) assert.doesNotThrow(() => contextsOf(other));
});

test("the tenant of a server's URL", () => {
  assert.equal(tenantOfServer("https://h/clusters/a-b/"), "a-b");
  assert.equal(tenantOfServer("https://h:6443"), "~");
});

test("a merge patch as lines", () => {
  const { changes, more } = changesOf({ metadata: { generation: 2 }, spec: { image: "b", old: null, list: [1], many: { a: 1, b: 2, c: 3, d: 4 } } });
  assert.deepEqual(changes.slice(0, 3), [{ path: "spec.image", text: '"b"' }, { path: "spec.old", text: "removed" }, { path: "spec.list", text: "[1]" }]);
  assert.equal(more, 1);
});

test("time in the states of a condition, over an absence", () => {
  const of = (time, status) => ({ time, object: status === null ? null : { status: { conditions: [{ type: "Ready", status }] } } });
  const times = [0, 10, 20, 30, 40].map((seconds) => new Date(seconds * 1000).toISOString());
  const spans = conditionSpans([of(times[0], "False"), of(times[1], "True"), of(times[2], "True"), of(times[3], null), of(times[4], "True")], 50_000);
  assert.deepEqual(spans[0].spans.map((one) => [one.status, one.from / 1000, one.to / 1000]), [["False", 0, 10], ["True", 10, 30], ["True", 40, 50]]);
  for (const conditions of [null, "x", [null, "text", 5, { type: 1, status: "True" }, { type: "A" }]]) assert.deepEqual(conditionsOf({ status: { conditions } }), []);
  assert.deepEqual(conditionSpans([{ time: times[0], object: { status: { conditions: "none" } } }], 1), []);
});

test("the use of a quota over time", () => {
  const at = (second, used) => ({ time: `1970-01-01T00:00:0${second}Z`, object: used && { status: { used } } });
  const lines = quotaLines([at(0, undefined), at(1, { pods: "1" }), at(2, { pods: "3", secrets: "2", memory: "1Gi" }), at(3, null)]);
  assert.deepEqual(lines, [{ name: "pods", points: [[1000, 1], [2000, 3]] }, { name: "secrets", points: [[2000, 2]] }]);
});

test("a graph has owners to the left of what they own", () => {
  const nodes = [{ id: "a", level: -1, title: "A" }, { id: "b", level: 0, title: "B" }, { id: "c", level: 1, title: "C" }, { id: "d", level: 1, title: "D" }];
  const { nodes: placed, edges, width, height } = layout(nodes, [{ from: "a", to: "b" }, { from: "b", to: "c" }, { from: "b", to: "d" }, { from: "b", to: "gone" }]);
  const x = Object.fromEntries(placed.map((one) => [one.id, one.x]));
  assert.ok(x.a < x.b && x.b < x.c && x.c === x.d);
  assert.equal(edges.length, 3);
  assert.ok(width > 0 && height > 0);
});

test("marks of axes", () => {
  assert.deepEqual(niceTicks(17), [0, 5, 10, 15, 20]);
  assert.deepEqual(niceTicks(1), [0, 1]);
  for (const most of [2, 3, 7, 99, 1234567]) {
    const ticks = niceTicks(most);
    assert.ok(ticks.at(-1) >= most && ticks.length >= 2 && ticks.length <= 7 && ticks.every(Number.isInteger), `${most}: ${ticks}`);
  }
  const day = timeTicks(0, 86_400_000);
  assert.ok(day.length >= 3 && day.length <= 6);
});

test("SQL: names as docs/sql.md has them", () => {
  assert.equal(viewName("crontabs", "jobs.example.com"), "crontabs_jobs_example_com");
  assert.equal(viewName("x".repeat(50), "jobs.example.com"), null);
  assert.equal(columnName(["status", "readyReplicas"]), "status_ready_replicas");
  assert.equal(columnName(["ready"]), "ready_field");
  const schema = { properties: { spec: { type: "object", properties: { size: { type: "integer" }, secret: { type: "string", format: "password" }, at: { type: "string", format: "date-time" }, list: { type: "array", items: { type: "object", properties: {} } } } }, status: { type: "object", properties: { phase: { type: "string" } } } } };
  const columns = columnsOf(schema);
  assert.deepEqual(columns, [{ name: "spec_size", type: "integer" }, { name: "spec_at", type: "time" }, { name: "status_phase", type: "string" }]);
  assert.deepEqual(columnsOf(schema, ["spec"]).map((one) => one.name), ["status_phase"], "sensitive ones are not offered");
  assert.deepEqual(columnsOf(undefined), []);
  assert.ok(exampleQueries("v", columns, true).some((one) => one.sql.includes("status_phase")));
  for (const one of exampleQueries("v", [], false)) assert.ok(!/undefined|null/.test(one.sql), one.sql);
});

test("YAML: the place of a field, and the field of a place", () => {
  const text = "spec:\n  rules:\n  - host: a\n    port: x\n  note:\n";
  const { document } = parseYaml(text);
  const { from, to } = rangeOf(document, ["spec", "rules", 0, "port"]);
  assert.equal(text.slice(from, to), "port");
  assert.equal(text.slice(...Object.values(rangeOf(document, ["spec", "rules", 7, "x"]))), "rules");
  const lines = text.split("\n");
  assert.deepEqual(pathOfLine(lines, 3), ["spec", "rules", 0, "port"]);
  assert.deepEqual(pathOfLine(lines, 4), ["spec", "note"]);
  assert.deepEqual(pathOfLine([...lines.slice(0, 4), "    "], 4, true), ["spec", "rules", 0], "above a field that is being typed");
  assert.deepEqual(pathOfLine([...lines.slice(0, 2), "  - po"], 2, true), ["spec", "rules", 0], "in a new item");
  assert.deepEqual(pathOfLine(["a:", "- b: 1", "  c:"], 2), ["a", 0, "c"], "a list that is not indented");
  assert.deepEqual(pathOfLine([...lines, ""], 6, true), []);
  assert.deepEqual(pathOfLine(["a: [", "  b"], 1, true), ["a"], "what is no YAML yet");
});

test("YAML: faults say where they are, and nothing throws", () => {
  for (const text of ["a: [", "a: b: c", "\t- x", "a: 1\na: 2", "*x", "&a [*a]", ""]) {
    const { errors } = parseYaml(text);
    for (const one of errors) assert.ok(one.message && one.from >= 0);
  }
  assert.ok(parseYaml("a: [").errors.length > 0);
});

test("YAML: aliases that explode are refused", () => {
  let text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (let level = 1; level < 10; level += 1) text += `a${level}: &a${level} [${Array(10).fill(`*a${level - 1}`).join(",")}]\n`;
  assert.ok(parseYaml(text).errors.length > 0);
});

test("YAML: numbers keep their digits when managed fields are taken out", () => {
  const text = 'apiVersion: v1\nmetadata:\n  managedFields:\n  - manager: x\n  name: a\n  resourceVersion: "7"\nspec:\n  large: 12345678901234567890\n  float: 1.0\n  tiny: 1e-9\n';
  const without = withoutManagedFields(text);
  assert.ok(!without.includes("manager"));
  for (const word of ["12345678901234567890", "1.0"]) assert.ok(without.includes(word), without);
  assert.equal(parseYaml(withResourceVersion(without, "9")).value.metadata.resourceVersion, "9");
  assert.equal(toYaml({ a: "no", b: "1" }), 'a: "no"\nb: "1"\n');
});

test("figures for people", () => {
  assert.equal(ageOf(new Date(0).toISOString(), 3 * 86_400_000), "3d");
  assert.equal(ageOf("nonsense"), "");
  assert.equal(bytesText(3_400_000), "3.2 MiB");
  assert.equal(plural(1, "object"), "1 object");
  assert.equal(plural(12345, "object"), "12,345 objects");
});
