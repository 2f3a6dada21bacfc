// All kinds that the tenant serves: search, categories.
import { isBuiltin, qualifiedName, searchKinds } from "../logic/kinds.js";
import { kindArgs } from "../logic/routes.js";
import { Heading, html, useConsole, useTitle, VirtualTable } from "../ui.js";
import { useMemo, useState } from "../vendor/preact.js";

export default function Kinds({ query }) {
  useTitle("Kinds");
  const { kinds, href } = useConsole();
  const [text, setText] = useState("");
  const { category = "" } = query;
  const categories = useMemo(() => [...new Set(kinds.flatMap((kind) => kind.categories))].sort(), [kinds]);
  const found = searchKinds(kinds, text).filter((kind) => !category || kind.categories.includes(category));
  const definitionLink = (kind) => html`<a href=${href({ page: "definition", args: [qualifiedName(kind)] })}>definition</a>`;
  const columns = [
    { id: "kind", title: "Kind", cell: (kind) => html`<a href=${href({ page: "objects", args: kindArgs(kind) })}>${kind.kind}</a>` },
    { id: "name", title: "Resource", cell: qualifiedName },
    { id: "version", title: "Version", cell: (kind) => kind.version },
    { id: "scope", title: "Scope", cell: (kind) => (kind.namespaced ? "Namespaced" : "Cluster") },
    { id: "short", title: "Short names", cell: (kind) => kind.shortNames.join(", ") },
    { id: "categories", title: "Categories", cell: (kind) => kind.categories.join(", ") },
    { id: "origin", title: "From", cell: (kind) => (isBuiltin(kind) ? "server" : definitionLink(kind)) },
  ];
  return html`<${Heading} parts=${[["Kinds"]]} about=${`${found.length} that can be listed`} />
    <div class="bar-row">
      <input type="search" aria-label="Search kinds" placeholder="Search" value=${text}
          onInput=${(event) => setText(event.target.value)} />
      ${categories.map((one) => html`<a key=${one} class="chip"
          href=${href({ page: "kinds", query: { category: one === category ? "" : one } })}
          aria-current=${one === category ? "true" : undefined}>${one}</a>`)}
    </div>
    <${VirtualTable} label="Kinds" columns=${columns} rows=${found}
        keyOf=${(kind) => `${kind.group}/${kind.version}/${kind.plural}`} />`;
}
