// The frame around the pages: who is signed in, which tenant, which page. Pages are modules that are loaded when they
// are first opened.
import { Api, AGGREGATED, Rights } from "./api.js";
import { isBuiltin, kindsOf, qualifiedName, searchKinds } from "./logic/kinds.js";
import { tenantPrefix } from "./logic/paths.js";
import { CORE, formatRoute, HOME, kindArgs, parseRoute } from "./logic/routes.js";
import { SignIn } from "./pages/signin.js";
import { clearSession, finishSignIn, loadSession, saveSession } from "./session.js";
import { Console, Dialog, ErrorNotice, html, Loading, Notice, useConsole, useLoaded } from "./ui.js";
import { Component, render, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";

const PAGES = {
  overview: () => import("./pages/overview.js"),
  kinds: () => import("./pages/kinds.js"),
  objects: () => import("./pages/objects.js"),
  object: () => import("./pages/object.js"),
  new: () => import("./pages/object.js"),
  deleted: () => import("./pages/deleted.js"),
  definitions: () => import("./pages/definitions.js"),
  definition: () => import("./pages/definition.js"),
  tenants: () => import("./pages/tenants.js"),
};

function App({ arrived, problem }) {
  const [session, setSession] = useState(arrived);
  const [expired, setExpired] = useState(false);
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const onHash = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", onHash);
    return () => removeEventListener("hashchange", onHash);
  }, []);
  // One object for as long as somebody is signed in: a new token goes into it, so that pages and what was typed stay.
  const api = useMemo(() => new Api("", () => setExpired(true)), []);
  if (session) api.token = session.token;
  const signedIn = (found) => {
    saveSession(found);
    if (!session && found.tenant !== HOME && route.tenant === HOME) location.hash = formatRoute({ tenant: found.tenant });
    setSession(found);
    setExpired(false);
  };
  const signOut = () => {
    clearSession();
    location.hash = "";
    location.reload();
  };
  if (!session) return html`<main class="sign-in"><${SignIn} onSignIn=${signedIn} problem=${problem} /></main>`;
  return html`<${Frame} api=${api} session=${session} route=${route} signOut=${signOut} problem=${problem} />
    ${expired && html`<${Dialog} title="Sign in again">
      <div class="body"><${Notice}
          kind="warning">The server does not accept your token any more. What you typed is still there.</>
      <${SignIn} onSignIn=${signedIn} inDialog=${true} /></div>
    </>`}`;
}

function Frame({ api, session, route, signOut, problem }) {
  const { tenant } = route;
  const [palette, setPalette] = useState(false);
  const [menu, setMenu] = useState(false);
  const [notices, setNotices] = useState(problem ? [{ id: 0, text: problem.message, kind: "error" }] : []);
  const rights = useMemo(() => new Rights(api, tenantPrefix(tenant)), [tenant, session]);
  const who = useLoaded(() => whoAmI(api, tenant), [tenant, session]);
  const kinds = useLoaded(() => loadKinds(api, tenant), [tenant, session]);
  const tenants = useLoaded(() => mayListTenants(api), [session]);
  useEffect(() => {
    const onKey = (event) => {
      const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
      if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
        event.preventDefault();
        setPalette(true);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => setMenu(false), [route]);
  const context = useMemo(() => {
    const notify = (text, kind = "good") => {
      const id = Math.random();
      setNotices((old) => [...old.slice(-2), { id, text, kind }]);
      setTimeout(() => setNotices((old) => old.filter((one) => one.id !== id)), 8000);
    };
    return {
      api, rights, session, tenant, notify, kinds: kinds.value ?? [], reloadKinds: kinds.again, user: who.value,
      go: (to) => (location.hash = typeof to === "string" ? to : formatRoute({ tenant, ...to })),
      href: (to) => formatRoute({ tenant, ...to }),
    };
  }, [api, rights, session, tenant, kinds.value, who.value]);
  return html`<${Console.Provider} value=${context}>
    <div class="frame">
      <a class="skip" href="#main"
          onClick=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>Skip to the page</a>
      <header class="top">
        <button type="button" class="menu" aria-expanded=${menu} aria-label="Menu" onClick=${() => setMenu(!menu)}>☰</button>
        <a class="brand" href=${formatRoute({ tenant })} aria-label="registry: overview"><img src="icon.svg"
            alt="" /><span>registry</span></a>
        <${TenantChoice} tenant=${tenant} home=${session.tenant} all=${tenants.value} />
        <span class="grow"></span>
        <button type="button" class="search" onClick=${() => setPalette(true)}>Find a kind <kbd>/</kbd></button>
        <span class="who quiet">${who.value ?? ""}</span>
        <button type="button" onClick=${signOut}>Sign out</button>
      </header>
      <${Side} route=${route} kinds=${kinds.value ?? []} open=${menu} showTenants=${tenants.value} />
      <main id="main" tabindex="-1">
        ${notices.map((one) => html`<${Notice} key=${one.id} kind=${one.kind}>${one.text}</>`)}
        ${kinds.error && kinds.error.code !== 401 && !kinds.value ? html`<${NoKinds} error=${kinds.error} again=${kinds.again} />`
          : kinds.value ? html`<${Page} key=${tenant} route=${route} />` : html`<${Loading} />`}
      </main>
    </div>
    ${palette && html`<${Palette} onClose=${() => setPalette(false)} />`}
  </>`;
}

function NoKinds({ error, again }) {
  return html`<${ErrorNotice} error=${error} again=${again} />
    ${error.code === 403 && html`<p>Nothing of this tenant is open to you. It may be another tenant that you may use: choose it at the top.</p>`}`;
}

/** The page of a route, with its module loaded. A page stays while the parts of its route that name it stay. */
function Page({ route }) {
  const page = PAGES[route.page] ? route.page : "overview";
  const loaded = useLoaded(async () => ({ page, module: await PAGES[page]() }), [page]);
  if (loaded.error) return html`<${ErrorNotice}
      error=${{ code: 0, message: "A part of the console could not be loaded." }} again=${loaded.again} />`;
  if (loaded.value?.page !== page) return html`<${Loading} />`;
  const Found = loaded.value.module[page === "new" ? "NewObject" : "default"];
  const place = [page, ...route.args].join("/");
  return html`<${Caught} key=${place}><${Found} args=${route.args} query=${route.query} /></>`;
}

/** What a page cannot draw leaves the frame around it as it is. */
class Caught extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  render({ children }, { error }) {
    if (!error) return children;
    return html`<${Notice} kind="error"><p>This page cannot show what the server has sent: ${error.message}</p>
      <button type="button" onClick=${() => this.setState({ error: null })}>Try again</button></>`;
  }
}

async function whoAmI(api, tenant) {
  const path = `${tenantPrefix(tenant)}/apis/authentication.k8s.io/v1/selfsubjectreviews`;
  const review = await api.post(path, { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" });
  return review.status.userInfo.username;
}

async function loadKinds(api, tenant) {
  const prefix = tenantPrefix(tenant);
  const documents = await Promise.all(["/api", "/apis"].map((path) => api.get(prefix + path, { accept: AGGREGATED })));
  return kindsOf(documents);
}

/** Tenants are objects of the tenant `system`, which most people may not enter. */
function mayListTenants(api) {
  return new Rights(api, tenantPrefix("system")).may({ verb: "list", group: "tenancy.registry", resource: "tenants" });
}

function TenantChoice({ tenant, home, all }) {
  const [open, setOpen] = useState(false);
  const submit = (event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("tenant").trim();
    setOpen(false);
    location.hash = formatRoute({ tenant: name || HOME });
  };
  return html`<button type="button" onClick=${() => setOpen(true)}>${tenant === HOME ? "Your tenant" : tenant}</button>
    ${open && html`<${Dialog} title="Go to a tenant" onClose=${() => setOpen(false)}>
      <form onSubmit=${submit}>
        <div class="body"><label class="field">Name of the tenant; nothing for your own
          <input name="tenant" value=${tenant === HOME ? "" : tenant} autocomplete="off" spellcheck=${false} autofocus /></label>
          ${all && html`<p><a href=${formatRoute({ tenant, page: "tenants" })}
              onClick=${() => setOpen(false)}>All tenants</a></p>`}
          ${home !== HOME && html`<p><a href=${formatRoute({ tenant: home })}
              onClick=${() => setOpen(false)}>${home}</a></p>`}</div>
        <footer><button class="main">Go</button></footer>
      </form></>`}`;
}

function Side({ route, kinds, open, showTenants }) {
  const { tenant, page, args } = route;
  const link = (to, text, current) => html`<a href=${formatRoute({ tenant, ...to })}
      aria-current=${current ? "page" : undefined}>${text}</a>`;
  const custom = kinds.filter((kind) => kind.preferred && !isBuiltin(kind) && kind.verbs.includes("list"));
  const groups = new Map();
  for (const kind of custom.slice(0, 60)) groups.set(kind.group, [...(groups.get(kind.group) ?? []), kind]);
  const isAt = (kind) => ["objects", "object", "new", "deleted"].includes(page) && args[0] === (kind.group || CORE) && args[2] === kind.plural;
  const core = (plural, group, version = "v1") => ({ page: "objects", args: [group ?? CORE, version, plural] });
  const at = (plural) => page === "objects" && args[2] === plural;
  return html`<nav class=${`side ${open ? "open" : ""}`} aria-label="Pages">
    ${link({}, "Overview", page === "overview")}
    ${link({ page: "kinds" }, "All kinds", page === "kinds")}
    ${link({ page: "definitions" }, "Definitions", page === "definitions" || page === "definition")}
    ${link(core("namespaces"), "Namespaces", at("namespaces"))}
    ${link(core("events"), "Events", at("events"))}
    ${showTenants && link({ page: "tenants" }, "Tenants", page === "tenants")}
    ${[...groups].map(([group, found]) => html`<h2 key=${group}>${group}</h2>
      ${found.map((kind) => link({ page: "objects", args: kindArgs(kind) }, kind.kind, isAt(kind)))}`)}
    ${custom.length > 60 && html`<p class="quiet">and ${custom.length - 60} more kinds</p>`}
  </nav>`;
}

/** Search over kinds and pages, by keyboard. */
function Palette({ onClose }) {
  const { kinds, go } = useConsole();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef();
  const pages = [["Overview", "overview"], ["All kinds", "kinds"], ["Definitions", "definitions"], ["Tenants", "tenants"]];
  const found = [
    ...searchKinds(kinds, text).slice(0, 50).map((kind) => [kind.kind, qualifiedName(kind), { page: "objects", args: kindArgs(kind) }]),
    ...pages.filter(([name]) => name.toLowerCase().includes(text.toLowerCase())).map(([name, page]) => [name, "page", { page }]),
  ];
  const choose = (index) => {
    if (!found[index]) return;
    onClose();
    go(found[index][2]);
  };
  const onKey = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((old) => Math.max(0, Math.min(found.length - 1, old + step)));
    } else if (event.key === "Enter") choose(at);
  };
  useEffect(() => list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }), [at]);
  return html`<${Dialog} title="Find a kind" onClose=${onClose}><div class="body palette">
    <input type="text" role="combobox" aria-label="Name, short name, group or category" aria-expanded="true" aria-controls="found"
      aria-activedescendant=${`found-${at}`} autocomplete="off" spellcheck=${false} autofocus placeholder="Name, short name, group or category"
      value=${text} onInput=${(event) => (setText(event.target.value), setAt(0))} onKeyDown=${onKey} />
    <ul id="found" role="listbox" aria-label="Kinds and pages" ref=${list}>
      ${found.map(([name, where], index) => html`<li id=${`found-${index}`} role="option"
          aria-selected=${index === at} onClick=${() => choose(index)}>
        <span>${name}</span><span class="quiet">${where}</span></li>`)}
    </ul></div></>`;
}

async function begin() {
  let session = loadSession();
  let problem = null;
  try {
    session = (await finishSignIn(new Api(""))) ?? session;
    if (session) saveSession(session);
  } catch (error) {
    problem = error;
  }
  render(html`<${App} arrived=${session} problem=${problem} />`, document.getElementById("app"));
}

begin();
