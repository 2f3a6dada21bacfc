// The definitions of a tenant: versions, scope, conditions.
import { DEFINITIONS } from "../logic/kinds.js";
import { Age, html, Status, useConsole, useRights, useTitle } from "../ui.js";
import { Listing } from "./objects.js";

// Definitions are large, so only these fields are requested.
const KEPT = ["metadata.creationTimestamp", "metadata.deletionTimestamp", "spec.names.kind", "spec.scope", "status.conditions",
  ...["name", "served", "storage", "deprecated"].map((field) => `spec.versions.${field}`)];

export default function Definitions({ query }) {
  useTitle("Definitions");
  const { tenant, href } = useConsole();
  const may = useRights({ create: { group: DEFINITIONS.group, resource: DEFINITIONS.plural, verb: "create" } });
  const columns = [
    { id: "kind", title: "Kind", order: "spec.names.kind", cell: (row) => html`<a href=${href({ page: "definition", args: [row.name] })}>${row.object.spec.names.kind}</a>` },
    { id: "name", title: "Name", order: "metadata.name", cell: (row) => row.name },
    { id: "versions", title: "Versions", cell: (row) => row.object.spec.versions.map(versionText).join(", ") },
    { id: "scope", title: "Scope", order: "spec.scope", cell: (row) => row.object.spec.scope },
    { id: "state", title: "Established", cell: (row) => html`<${Status} text=${row.deleting ? "Terminating" : stateOf(row)} />` },
    { id: "fault", title: "Problems", cell: (row) => conditionsOf(row).filter(isFault).map((one) => `${one.type}: ${one.reason}`).join(", ") },
    { id: "age", title: "Age", order: "metadata.creationTimestamp", cell: (row) => html`<${Age} time=${row.created} />` },
  ];
  return html`<${Listing} kind=${DEFINITIONS} tenant=${tenant} query=${query} title="Definitions" columns=${() => columns}
    accept=${`application/json;keep=${KEPT.join("+")}`} actions=${may.create && html`<a class="button main"
        href=${href({ page: "new", args: [DEFINITIONS.group, "v1", DEFINITIONS.plural] })}>New</a>`} />`;
}

const conditionsOf = ({ object }) => object.status?.conditions ?? [];
const stateOf = (row) => conditionsOf(row).find((one) => one.type === "Established")?.status ?? "Unknown";

/** Most conditions report a problem when they are False, NonStructuralSchema when it is True. */
function isFault({ type, status }) {
  return type !== "Terminating" && status === (type === "NonStructuralSchema" ? "True" : "False");
}

function versionText(version) {
  const marks = [version.storage && "stored", !version.served && "not served", version.deprecated && "deprecated"];
  return [version.name, ...marks.filter(Boolean).map((mark) => `(${mark})`)].join(" ");
}
