// Deleted objects of a kind in their last state, and undelete.
import { resourcePath } from "../logic/paths.js";
import { kindArgs, objectRoute } from "../logic/routes.js";
import { timeText } from "../logic/text.js";
import { toYaml } from "../logic/yamldoc.js";
import { Age, Dialog, Empty, ErrorNotice, Heading, html, Loading, useConsole, useLoaded, useRights, useTitle, Table } from "../ui.js";
import { useState } from "../vendor/preact.js";
import { NamespaceChoice, Unknown, useKind } from "./objects.js";

const PAGE = 100;

export default function Deleted({ args, query }) {
  const kind = useKind(args);
  useTitle(`Deleted ${kind?.kind ?? ""}`);
  return kind ? html`<${List} kind=${kind} args=${args} query=${query} />` : html`<${Unknown} args=${args} />`;
}

function List({ kind, args, query }) {
  const { api, tenant, href, go } = useConsole();
  const { ns = "", name = "" } = query;
  const [more, setMore] = useState([]);
  const [shown, setShown] = useState(null);
  const [error, setError] = useState(null);
  const load = (next, signal) => {
    const selected = { deleted: true, limit: PAGE, continue: next, fieldSelector: name ? `metadata.name=${name}` : "" };
    return api.get(resourcePath(tenant, kind, { namespace: ns, query: selected }), { signal });
  };
  const first = useLoaded((signal) => (setMore([]), load("", signal)), [ns, name]);
  const pages = [first.value, ...more].filter(Boolean);
  const items = pages.flatMap((page) => page.items).map((entry) => {
    const { name: its, namespace = "" } = entry.object?.metadata ?? entry;
    return { ...entry, name: its, namespace };
  });
  const next = pages.at(-1)?.metadata.continue;
  const loadMore = () => load(next).then((page) => setMore([...more, page]), setError);
  const columns = [
    ...(kind.namespaced ? [{ id: "namespace", title: "Namespace", cell: (one) => one.namespace ?? "" }] : []),
    { id: "name", title: "Name", cell: (one) => html`<a href="#"
        onClick=${(event) => (event.preventDefault(), setShown(one))}>${one.name}</a>` },
    { id: "when", title: "Deleted", cell: (one) => html`${timeText(one.time)} (<${Age} time=${one.time} /> ago)` },
    { id: "user", title: "By", cell: (one) => one.user },
    { id: "past", title: "History", cell: (one) => html`<a href=${objectRoute(tenant, kind, one.namespace, one.name, { tab: "history" })}>History</a>` },
  ];
  return html`<${Heading}
      parts=${[[kind.kind, href({ page: "objects", args: kindArgs(kind), query: { ns } })], ["Deleted objects"]]}
      about=${first.value ? `Deletions since revision ${first.value.metadata.retainedSince}` : ""} />
    <div class="bar-row">
      ${kind.namespaced && html`<${NamespaceChoice} value=${ns}
          onChange=${(value) => go({ page: "deleted", args, query: { ns: value, name } })} />`}
      ${name && html`<span class="chip">name: ${name}</span><a href=${href({ page: "deleted", args, query: { ns } })}>all</a>`}
    </div>
    <${ErrorNotice} error=${first.error ?? error} again=${first.again} />
    ${!first.value && !first.error ? html`<${Loading} />` : items.length === 0 ? !first.error && html`<${Empty}>There are no deleted objects.</>`
      : html`<${Table} label="Deleted objects" columns=${columns} rows=${items}
          keyOf=${(one) => `${one.namespace}/${one.name}/${one.uid}`} />`}
    ${next && html`<p><button type="button" onClick=${loadMore}>More</button></p>`}
    ${shown && html`<${Shown} kind=${kind} entry=${shown} onClose=${() => setShown(null)} />`}`;
}

function Shown({ kind, entry, onClose }) {
  const { api, tenant, notify, go } = useConsole();
  const [error, setError] = useState(null);
  const place = { group: kind.group, resource: kind.plural, namespace: entry.namespace ?? "", name: entry.name };
  const may = useRights({ undelete: { ...place, verb: "create", subresource: "undelete" } });
  const { managedFields: _fields, ...metadata } = entry.object?.metadata ?? {};
  const text = entry.object ? toYaml({ ...entry.object, metadata }) : entry.message ?? "";
  const undelete = async () => {
    try {
      const path = resourcePath(tenant, kind, { namespace: entry.namespace, name: entry.name, subresource: "undelete" });
      await api.post(path, { preconditions: { uid: entry.uid } });
      notify(`${entry.name} was restored, with a new uid.`);
      go(objectRoute(tenant, kind, entry.namespace, entry.name));
    } catch (failure) {
      setError(failure);
    }
  };
  return html`<${Dialog} title=${`Last state of ${entry.name}`} wide=${true} onClose=${onClose}>
    <div class="body"><${ErrorNotice} error=${error} /><pre tabindex="0">${text}</pre></div>
    <footer><button type="button" onClick=${onClose}>Close</button>${may.undelete && html`<button type="button"
        class="main" onClick=${undelete}>Undelete</button>`}</footer>
  </>`;
}
