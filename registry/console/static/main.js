// The frame around the pages: session, tenant, navigation. Each page is a module that is loaded when it is first opened.
import { Api, AGGREGATED, Rights } from "./api.js";
import { isBuiltin, kindsOf } from "./logic/kinds.js";
import { tenantPrefix } from "./logic/paths.js";
import { CORE, formatRoute, HOME, kindArgs, parseRoute } from "./logic/routes.js";
import { SignIn } from "./pages/signin.js";
import { clearSession, finishSignIn, loadSession, renewSession, saveSession } from "./session.js";
import { Console, Dialog, ErrorNotice, Field, html, Loading, Notice, useLoaded } from "./ui.js";
import { Component, render, useEffect, useMemo, useState } from "./vendor/preact.js";

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
  // One object for the whole session: a renewed token is set on it, so that pages keep their state.
  const api = useMemo(() => new Api("", { onExpired: () => setExpired(true), renew }), []);
  if (session) api.token = session.token;
  async function renew() {
    const found = await renewSession(new Api(""));
    if (!found) return;
    saveSession(found);
    api.token = found.token;
    setSession(found);
  }
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
          kind="warning">Your session has expired. What you typed is kept.</>
      <${SignIn} onSignIn=${signedIn} inDialog=${true} /></div>
    </>`}`;
}

function Frame({ api, session, route, signOut, problem }) {
  const { tenant } = route;
  const [menu, setMenu] = useState(false);
  const [notices, setNotices] = useState(problem ? [{ id: 0, text: problem.message, kind: "error" }] : []);
  const rights = useMemo(() => new Rights(api, tenantPrefix(tenant)), [tenant, session]);
  const who = useLoaded(() => whoAmI(api, tenant), [tenant, session]);
  const loaded = useLoaded(async () => ({ of: tenant, found: await loadKinds(api, tenant) }), [tenant, session]);
  const kinds = loaded.value?.of === tenant ? loaded.value.found : null; // not those of the tenant before
  const isReady = kinds && (who.value || (who.error && !who.loading)); // drafts are kept by user
  const tenants = useLoaded(() => mayListTenants(api), [session]);
  const find = () => {
    location.hash = formatRoute({ tenant, page: "kinds" });
    document.getElementById("find")?.select(); // where the page is that already
  };
  useEffect(() => {
    const onKey = (event) => {
      const typing = event.target.closest?.("input, textarea, select, [contenteditable], dialog");
      if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !typing)) {
        event.preventDefault();
        find();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [tenant]);
  useEffect(() => setMenu(false), [route]);
  const context = useMemo(() => {
    const notify = (text, kind = "good") => {
      const id = Math.random();
      setNotices((old) => [...old.slice(-2), { id, text, kind }]);
      setTimeout(() => setNotices((old) => old.filter((one) => one.id !== id)), 8000);
    };
    return {
      api, rights, session, tenant, notify, kinds: kinds ?? [], reloadKinds: loaded.again, user: who.value,
      go: (to) => (location.hash = typeof to === "string" ? to : formatRoute({ tenant, ...to })),
      href: (to) => formatRoute({ tenant, ...to }),
    };
  }, [api, rights, session, tenant, kinds, who.value]);
  return html`<${Console.Provider} value=${context}>
    <div class="frame">
      <a class="skip" href="#main"
          onClick=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>Skip to content</a>
      <header class="top">
        <button type="button" class="menu" aria-expanded=${menu} aria-label="Menu" onClick=${() => setMenu(!menu)}>☰</button>
        <a class="brand" href=${formatRoute({ tenant })} aria-label="registry: overview"><img src="icon.svg"
            alt="" /><span>registry</span></a>
        <${Field} name="tenant" label="Tenant (empty: your own); Enter opens it" placeholder="Your tenant"
            value=${tenant === HOME ? "" : tenant} onEnter=${(to) => (location.hash = formatRoute({ tenant: to || HOME }))} />
        <span class="grow"></span>
        <button type="button" class="search" onClick=${find}>Find a kind <kbd>/</kbd></button>
        <span class="who quiet">${who.value ?? ""}</span>
        <button type="button" onClick=${signOut}>Sign out</button>
      </header>
      <${Side} route=${route} kinds=${kinds ?? []} open=${menu} showTenants=${tenants.value} />
      <main id="main" tabindex="-1">
        ${notices.map((one) => html`<${Notice} key=${one.id} kind=${one.kind}>${one.text}</>`)}
        ${!kinds && loaded.error && loaded.error.code !== 401 ? html`<${NoKinds} error=${loaded.error} again=${loaded.again} />`
          : isReady ? html`<${Page} key=${tenant} route=${route} />` : html`<${Loading} />`}
      </main>
    </div>
  </>`;
}

function NoKinds({ error, again }) {
  return html`<${ErrorNotice} error=${error} again=${again} />
    ${error.code === 403 && html`<p>You have no access to this tenant. If you have access to another one, enter its name at the top.</p>`}`;
}

/** Loads the module of a route's page. The page is kept mounted while its name and arguments stay the same. */
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

/** An error boundary: a page that fails to render leaves the frame intact. */
class Caught extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  render({ children }, { error }) {
    if (!error) return children;
    return html`<${Notice} kind="error"><p>This page cannot show the server's answer: ${error.message}</p>
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

/** Tenants are objects of the tenant `system`, to which most users have no access. */
function mayListTenants(api) {
  return new Rights(api, tenantPrefix("system")).may({ verb: "list", group: "tenancy.registry", resource: "tenants" });
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
