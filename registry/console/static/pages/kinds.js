// All kinds of the tenant, with search and categories. The key "/" opens this page from any other.
import { qualifiedName, searchKinds } from "../logic/kinds.js";
import { kindArgs } from "../logic/routes.js";
import { plural } from "../logic/text.js";
import { Heading, html, Table, useConsole, useTitle } from "../ui.js";
import { useEffect, useMemo, useRef, useState } from "../vendor/preact.js";

export default function Kinds({ query }) {
  useTitle("Kinds");
  const { kinds, href, go } = useConsole();
  const [text, setText] = useState("");
  const field = useRef();
  useEffect(() => field.current.focus(), []);
  const { category = "" } = query;
  const categories = useMemo(() => [...new Set(kinds.flatMap((kind) => kind.categories))].sort(), [kinds]);
  const found = searchKinds(kinds, text).filter((kind) => !category || kind.categories.includes(category));
  const to = (kind) => ({ page: "objects", args: kindArgs(kind) });
  const columns = [
    { id: "kind", title: "Kind", cell: (kind) => html`<a href=${href(to(kind))}>${kind.kind}</a>` },
    { id: "name", title: "Resource", cell: qualifiedName },
    { id: "short", title: "Short names", cell: (kind) => kind.shortNames.join(", ") },
    { id: "categories", title: "Categories", cell: (kind) => kind.categories.join(", ") },
    { id: "scope", title: "Scope", cell: (kind) => (kind.namespaced ? "Namespaced" : "Cluster") },
    { id: "version", title: "Version", cell: (kind) => kind.version },
  ];
  return html`<${Heading} parts=${[["Kinds"]]} about=${plural(found.length, "kind")} />
    <form class="bar-row" onSubmit=${(event) => (event.preventDefault(), found[0] && go(to(found[0])))}>
      <input type="search" id="find" aria-label="Search kinds: Enter opens the first" placeholder="Name, short name, group, category"
          ref=${field} value=${text} onInput=${(event) => setText(event.target.value)} />
      ${categories.map((one) => html`<a key=${one} class="chip" href=${href({ page: "kinds", query: { category: one === category ? "" : one } })}
          aria-current=${one === category ? "true" : undefined}>${one}</a>`)}
    </form>
    <${Table} label="Kinds" columns=${columns} rows=${found} keyOf=${(kind) => `${kind.group}/${kind.version}/${kind.plural}`} />`;
}
