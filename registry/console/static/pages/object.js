// An object with its YAML, history, events and relations; and the page for a new one.
import { follow } from "../api.js";
import { conditionsOf } from "../logic/changes.js";
import { resourcePath } from "../logic/paths.js";
import { kindArgs, NONE, objectRoute } from "../logic/routes.js";
import { skeleton } from "../logic/schema.js";
import { loadSchema } from "../openapi.js";
import { Age, Dialog, ErrorNotice, Heading, html, Loading, Notice, Status, Tabs, useConsole, useLoaded, useRights, useTitle } from "../ui.js";
import { useEffect, useState } from "../vendor/preact.js";
import { Unknown, useKind } from "./objects.js";

export default function ObjectPage({ args, query }) {
  const [, , , place, name] = args;
  const kind = useKind(args);
  useTitle(name);
  if (!kind) return html`<${Unknown} args=${args} />`;
  return html`<${Known} kind=${kind} namespace=${place === NONE ? "" : place} name=${name} tab=${query.tab ?? "yaml"} />`;
}

const TAB_MODULES = {
  yaml: () => import("./yaml.js"),
  history: () => import("./history.js"),
  events: () => import("./events.js"),
  relations: () => import("./relations.js"),
};

function Known({ kind, namespace, name, tab }) {
  const { api, tenant, go, notify, rights } = useConsole();
  const live = useObject(kind, namespace, name);
  const [deleting, setDeleting] = useState(false);
  const resource = { group: kind.group, resource: kind.plural, namespace: kind.plural === "namespaces" && !kind.group ? name : namespace, name };
  const may = useRights({
    update: { ...resource, verb: "update" }, patch: { ...resource, verb: "patch" }, delete: { ...resource, verb: "delete" },
    history: { ...resource, verb: "get", subresource: "history" },
    restore: { ...resource, verb: "create", subresource: "restore" },
  });
  const module = useLoaded(async () => ({ tab, View: (await (TAB_MODULES[tab] ?? TAB_MODULES.yaml)()).default }), [tab]);
  const { object, error } = live;
  const history = may.history && kind.plural !== "secrets" ? [["history", "History"]] : [];
  const tabs = [["yaml", "YAML"], ...history, ["events", "Events"], ["relations", "Relations"]];
  const list = { page: "objects", args: kindArgs(kind), query: { ns: namespace } };
  const { href } = useConsole();
  const crumbs = [[kind.kind, href({ ...list, query: {} })], ...(namespace ? [[namespace, href(list)]] : []), [name]];
  return html`<${Heading} parts=${crumbs} about=${html`<${Summary} object=${object} kind=${kind} gone=${live.gone} />`}>
      ${may.delete && object && !live.gone && html`<button type="button" class="danger"
          onClick=${() => setDeleting(true)}>Delete</button>`}
    </>
    ${error && html`<${ErrorNotice} error=${error} again=${live.again} />`}
    ${live.message && html`<${Notice} kind="warning">${live.message}</>`}
    ${live.gone && html`<${Gone} kind=${kind} namespace=${namespace} name=${name} isKnown=${object} />`}
    <${Tabs} tabs=${tabs} current=${tab}
        href=${(id) => objectRoute(tenant, kind, namespace, name, { tab: id === "yaml" ? "" : id })} />
    ${!object && !error && !live.gone ? html`<${Loading} />`
      : module.value?.tab === tab && (object || tab === "history") && html`<${module.value.View} key=${tab}
          kind=${kind} namespace=${namespace} name=${name} object=${object} gone=${live.gone} may=${may} />`}
    ${deleting && html`<${Deletion} kind=${kind} object=${object} onClose=${() => setDeleting(false)}
        onDone=${() => (setDeleting(false), notify(`${name} is deleted, or will be when its finalizers are done.`), go(list))} />`}`;
}

/** Loads an object and watches it. */
function useObject(kind, namespace, name) {
  const { api, tenant, session } = useConsole();
  const [state, setState] = useState({ object: null, error: null, gone: false, message: "" });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    const { signal } = abort;
    const set = (fields) => signal.aborted || setState((old) => ({ ...old, ...fields }));
    const load = async () => {
      const object = await api.get(resourcePath(tenant, kind, { namespace, name }), { signal });
      set({ object, error: null, gone: false, message: "" });
      return kind.verbs.includes("watch") && object.metadata.resourceVersion;
    };
    const query = { fieldSelector: `metadata.name=${name}`, watch: 1 };
    const path = (resourceVersion) => resourcePath(tenant, kind, { namespace, query: { ...query, resourceVersion } });
    const onEvent = ({ type, object }) => set({ object, gone: type === "DELETED" });
    const report = (what, error) => {
      if (error?.code === 404) set({ gone: true });
      else if (what === "failed") set({ error });
      else if (what === "cut" && error.code !== 410) set({ message: `${error.message} Trying again.` });
    };
    follow(api, { load, path, onEvent, report, signal });
    return () => abort.abort();
  }, [api, tenant, kind, namespace, name, turn, session]);
  return { ...state, again: () => setTurn(turn + 1) };
}

function Summary({ object, kind, gone }) {
  if (!object) return kind.kind;
  const { metadata, status } = object;
  const ready = conditionsOf(object).find((one) => ["Ready", "Available", "Established"].includes(one.type));
  return html`${kind.kind}${metadata.creationTimestamp && html` · created <${Age}
      time=${metadata.creationTimestamp} /> ago`} · revision ${metadata.resourceVersion}
    ${metadata.deletionTimestamp && html` · <${Status} text="Terminating" />`}${gone && html` · <${Status} text="deleted" />`}
    ${ready && html` · ${ready.type}: <${Status} text=${ready.status} />`}
    ${typeof status?.phase === "string" && html` · <${Status} text=${status.phase} />`}`;
}

function Gone({ kind, namespace, name, isKnown }) {
  const { href } = useConsole();
  const deleted = href({ page: "deleted", args: kindArgs(kind), query: { ns: namespace, name } });
  const text = isKnown ? "This object has been deleted." : `There is no ${kind.kind} ${name}. It may have been deleted.`;
  return html`<${Notice} kind="warning">${text} <a href=${deleted}>See deleted objects</a></>`;
}

/** The dialog that shows the dependents of an object and deletes it. */
function Deletion({ kind, object, onClose, onDone }) {
  const { api, tenant, kinds } = useConsole();
  const [policy, setPolicy] = useState("Background");
  const [typed, setTyped] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const { metadata } = object;
  const isLarge = ["namespaces", "customresourcedefinitions", "tenants"].includes(kind.plural);
  const dependents = useLoaded((signal) => dependentsOf(api, tenant, kinds, kind, object, signal), [metadata.uid]);
  const remove = async () => {
    setBusy(true);
    setError(null);
    // If the object has been replaced meanwhile, the server answers 409 and nothing is deleted.
    const body = { apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: policy, preconditions: { uid: metadata.uid } };
    try {
      await api.send("DELETE", resourcePath(tenant, kind, { namespace: metadata.namespace, name: metadata.name }), { body });
      onDone();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${`Delete ${kind.kind} ${metadata.name}`} onClose=${onClose}>
    <div class="body">
      ${dependents.loading && !dependents.value ? html`<${Loading}
          what="Looking for dependents" />` : html`<${Dependents} found=${dependents.value}
          error=${dependents.error} policy=${policy} />`}
      ${!isLarge && html`<label class="field">Dependents
        <select value=${policy} onChange=${(event) => setPolicy(event.target.value)}>
          <option value="Background">are deleted afterwards (background)</option>
          <option value="Foreground">are deleted first (foreground)</option>
          <option value="Orphan">stay, without this owner (orphan)</option>
        </select></label>`}
      ${isLarge && html`<label class="field">Type its name to confirm<input value=${typed}
          onInput=${(event) => setTyped(event.target.value)} spellcheck=${false} autocomplete="off" /></label>`}
      ${(metadata.finalizers ?? []).length > 0 && html`<p class="quiet">It stays until its finalizers are done: ${metadata.finalizers.join(", ")}.</p>`}
      <${ErrorNotice} error=${error} />
    </div>
    <footer><button type="button" onClick=${onClose}>Cancel</button>
      <button type="button" class="danger" disabled=${busy || (isLarge && typed !== metadata.name)}
          onClick=${remove}>Delete</button></footer>
  </>`;
}

/** Returns what is deleted with a definition, a namespace or an object: `{lines: [[text, count]], more}`. */
async function dependentsOf(api, tenant, kinds, kind, { metadata, spec }, signal) {
  const { countObjects, findDependents, forEachAtOnce } = await import("../relations.js");
  if (kind.plural === "customresourcedefinitions") {
    const served = kinds.find((one) => one.group === spec.group && one.plural === spec.names.plural && one.preferred);
    const count = served && (await countObjects(api, tenant, served, { signal }));
    return { lines: [[`${spec.names.kind} objects, all of which are deleted`, count ?? "unknown"]] };
  }
  if (kind.plural === "namespaces" && !kind.group) {
    const lines = [];
    await forEachAtOnce(kinds.filter((one) => one.namespaced && one.preferred && one.verbs.includes("list")), async (one) => {
      const count = await countObjects(api, tenant, one, { namespace: metadata.name, signal });
      if (count) lines.push([one.kind, count]);
    }, signal);
    return { lines: lines.sort(([, a], [, b]) => b - a) };
  }
  const { items, more } = await findDependents(api, tenant, kind, metadata, { limit: 20, signal });
  return { lines: items.map((one) => [`${one.kind} ${[one.metadata.namespace, one.metadata.name].filter(Boolean).join("/")}`]), more };
}

function Dependents({ found, error, policy }) {
  if (error || !found) return html`<${Notice} kind="warning">Its dependents could not be determined.</>`;
  if (found.lines.length === 0) return html`<p>Nothing that you can list depends on it.</p>`;
  return html`<p>${policy === "Orphan" ? "These stay:" : "These are deleted with it:"}</p>
    <ul>${found.lines.map(([text, count]) => html`<li>${text} <strong>${count}</strong></li>`)}</ul>${found.more && html`<p>and more</p>`}`;
}

/** The page for creating an object. */
export function NewObject({ args, query }) {
  const { href, tenant, api } = useConsole();
  const kind = useKind(args);
  useTitle(`New ${kind?.kind ?? args[2]}`);
  const module = useLoaded(async () => {
    const [{ default: View }, { toYaml }] = await Promise.all([import("./yaml.js"), import("../logic/yamldoc.js")]);
    if (!kind) return null;
    const { schema, document } = await loadSchema(api, tenant, kind);
    return { View, text: toYaml(template(kind, query.ns, schema, document)) };
  }, [kind]);
  if (!kind) return html`<${Unknown} args=${args} />`;
  return html`<${Heading}
      parts=${[[kind.kind, href({ page: "objects", args: kindArgs(kind), query: { ns: query.ns } })], [`New ${kind.kind}`]]} />
    ${module.error && html`<${ErrorNotice} error=${module.error} again=${module.again} />`}
    ${module.value ? html`<${module.value.View} kind=${kind} namespace=${query.ns ?? ""}
        template=${module.value.text} />` : html`<${Loading} />`}`;
}

/** Returns a manifest with names and the required fields of the spec. */
function template(kind, namespace, schema, document) {
  const { metadata: _metadata, status: _status, apiVersion: _version, kind: _kind, ...rest } = schema ? skeleton(schema, document) : {};
  const spec = schema?.properties?.spec ? { spec: skeleton(schema.properties.spec, document) } : {};
  return {
    apiVersion: kind.group ? `${kind.group}/${kind.version}` : kind.version,
    kind: kind.kind,
    metadata: { name: "", ...(kind.namespaced ? { namespace: namespace || "default" } : {}) },
    ...spec, ...rest,
  };
}
