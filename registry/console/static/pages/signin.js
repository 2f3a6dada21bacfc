// Sign-in with a token, with a kubeconfig, or at the server's OIDC issuer.
import { Api, ApiError } from "../api.js";
import { tenantPrefix } from "../logic/paths.js";
import { HOME } from "../logic/routes.js";
import { contextsOf, hostOfServer } from "../logic/kubeconfig.js";
import { beginSignIn, issuerOf } from "../session.js";
import { ErrorNotice, html, Notice, useLoaded, useTitle } from "../ui.js";
import { useState } from "../vendor/preact.js";

/** Calls `onSignIn` with `{token, tenant}` once the server has accepted the token. */
export function SignIn({ onSignIn, problem, inDialog = false }) {
  useTitle("Sign in");
  const issuer = useLoaded(() => issuerOf(new Api("")).catch((error) => (error.code === 502 ? { error } : null)), []);
  const [way, setWay] = useState("token");
  const [error, setError] = useState(problem);
  const [busy, setBusy] = useState(false);
  const use = async (token, tenant) => {
    setBusy(true);
    setError(null);
    try {
      await accepted(token, tenant);
      onSignIn({ token, tenant });
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const choose = (id, text) => html`<button type="button" role="tab" id=${`by-${id}`} aria-selected=${way === id}
      aria-controls="way" onClick=${() => setWay(id)}>${text}</button>`;
  return html`
    ${!inDialog && html`<div class="brand"><img src="icon.svg" alt="" /><span>registry</span></div>`}
    <div class=${inDialog ? "" : "card"}>
      ${!inDialog && html`<h1>Sign in</h1>`}
      ${issuer.value?.issuer && html`<p><button type="button" class="main"
          onClick=${() => beginSignIn(issuer.value).catch(setError)}>Sign in at ${hostOfServer(issuer.value.issuer)}</button></p>`}
      ${issuer.value?.error && html`<${Notice} kind="warning">${issuer.value.error.message}</>`}
      <div class="choice" role="tablist"
          aria-label="How to sign in">${choose("token", "Token")}${choose("kubeconfig", "Kubeconfig")}</div>
      <div id="way" role="tabpanel" aria-labelledby=${`by-${way}`}>
        ${way === "token" ? html`<${ByToken} use=${use} busy=${busy} />` : html`<${ByKubeconfig} use=${use} busy=${busy} />`}
      </div>
      ${error && html`<${ErrorNotice} error=${{ code: -1, message: wording(error) }} />`}
    </div>
    ${!inDialog && html`<p class="quiet">The token stays in this tab until you close it or sign out.</p>`}`;
}

/** Throws ApiError if the server does not accept the token. */
async function accepted(token, tenant) {
  const path = `${tenantPrefix(tenant)}/apis/authentication.k8s.io/v1/selfsubjectreviews`;
  try {
    await new Api(token).post(path, { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" });
  } catch (error) {
    // A user of another tenant may be allowed to work in this one without being allowed this review.
    if (error.code !== 403) throw error;
  }
}

const wording = (error) => (error instanceof ApiError && error.code === 401 ? "The server does not accept this token." : error.message);

function ByToken({ use, busy }) {
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    use(form.get("token").trim(), form.get("tenant").trim() || HOME);
  };
  return html`<form onSubmit=${submit} autocomplete="off">
    <label class="field">Bearer token<input type="password" name="token" required autocomplete="off"
        spellcheck=${false} autofocus /></label>
    <label class="field">Tenant (default: that of the token)<input name="tenant" autocomplete="off"
        spellcheck=${false} /></label>
    <button class="main" disabled=${busy}>Sign in</button>
  </form>
  <p class="quiet">Get one with <code>registry token create --user ann</code> or <code>kubectl create token</code>.</p>`;
}

function ByKubeconfig({ use, busy }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState("");
  const parsed = useLoaded(async () => {
    if (!text.trim()) return null;
    const { parseYaml } = await import("../logic/yamldoc.js");
    return contextsOf(parseYaml(text).value);
  }, [text]);
  const contexts = parsed.value ?? [];
  const context = contexts.find((one) => one.name === chosen) ?? contexts.find((one) => one.current) ?? contexts[0];
  const elsewhere = context && hostOfServer(context.server) !== location.host;
  const submit = (event) => {
    event.preventDefault();
    if (context?.token) use(context.token, context.tenant);
  };
  return html`<form onSubmit=${submit} autocomplete="off">
    <label class="field">Kubeconfig (only its token and tenant are used)
      <textarea rows="7" spellcheck=${false} value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
    ${text.trim() && parsed.value && contexts.length === 0 && html`<${Notice}
        kind="warning">This is not a kubeconfig with contexts.</>`}
    ${contexts.length > 1 && html`<label class="field">Context<select value=${context.name}
        onChange=${(event) => setChosen(event.target.value)}>
      ${contexts.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}</select></label>`}
    ${context?.problem && html`<${Notice} kind="warning">${context.problem}</>`}
    ${context && !context.problem && elsewhere && html`<${Notice}
        kind="warning">This context belongs to ${context.server}, and this page to ${location.origin}. Its token would be sent here.</>`}
    <p><button class="main"
        disabled=${busy || !context?.token}>Sign in${context?.token && context.tenant !== HOME ? ` to ${context.tenant}` : ""}</button></p>
  </form>`;
}
