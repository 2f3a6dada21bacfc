// The session and unsaved drafts, in sessionStorage: it survives a reload and the way to an issuer and back, and, unlike
// localStorage, it is neither shared with other tabs nor kept when the tab is closed. The Content-Security-Policy allows no
// other scripts, so a variable would be no safer. No token is ever in a URL.
import { HOME } from "./logic/routes.js";

const SESSION = "registry.session";
const DRAFT = "registry.draft:";
const SIGN_IN = "registry.sign-in";
// Browsers limit the storage of a page to some 5 MB.
const DRAFT_LENGTH = 1_000_000;

/** `{token, tenant, refreshToken}` or null; only some issuers give a refresh token. */
export function loadSession() {
  return read(SESSION);
}

export function saveSession(session) {
  write(SESSION, session);
}

export function clearSession() {
  for (const key of Object.keys(sessionStorage)) if (key.startsWith("registry.")) sessionStorage.removeItem(key);
}

/** The draft of an object, `{text, base, at}`; `base` is the resource version that it was edited from. */
export const loadDraft = (place) => read(DRAFT + place);

export function saveDraft(place, draft) {
  if (draft.text.length <= DRAFT_LENGTH) write(DRAFT + place, draft);
}

export const dropDraft = (place) => sessionStorage.removeItem(DRAFT + place);

function read(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

/** Without storage, or if it is full, everything but a reload works. */
function write(key, value) {
  try {
    sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    sessionStorage.removeItem(key);
  }
}

// -- signing in at an issuer: authorization code with PKCE (RFC 7636)

/** Returns `{issuer, authorizationEndpoint, clientId, scope}`, or null if the server has no issuer. */
export async function issuerOf(api) {
  const found = await api.console("GET", "oidc");
  return found.issuer ? found : null;
}

/** Navigates to the issuer. */
export async function beginSignIn(issuer) {
  const verifier = randomText(48);
  const state = randomText(16);
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  write(SIGN_IN, { verifier, state, back: location.hash });
  const url = new URL(issuer.authorizationEndpoint);
  const parameters = {
    response_type: "code", client_id: issuer.clientId, redirect_uri: redirectUri(), scope: issuer.scope, state,
    code_challenge: base64url(new Uint8Array(digest)), code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  location.assign(url);
}

/** If the issuer has redirected here, exchanges its code for a session and removes it from the URL; otherwise null. */
export async function finishSignIn(api) {
  const answer = new URLSearchParams(location.search);
  const begun = read(SIGN_IN);
  if (!answer.has("state")) return null;
  sessionStorage.removeItem(SIGN_IN);
  history.replaceState(null, "", `${location.pathname}${begun?.back ?? ""}`);
  if (!begun || begun.state !== answer.get("state")) throw new Error("This sign-in was not begun in this tab.");
  if (!answer.has("code")) throw new Error(`The issuer refuses: ${answer.get("error_description") ?? answer.get("error")}`);
  const body = { code: answer.get("code"), codeVerifier: begun.verifier, redirectUri: redirectUri() };
  const { idToken, refreshToken } = await api.console("POST", "oidc", body);
  return { token: idToken, tenant: HOME, refreshToken };
}

/** Returns the session with a new token of the issuer, or null if the user has to sign in again. */
export async function renewSession(api) {
  const session = loadSession();
  if (!session?.refreshToken) return null;
  try {
    const { idToken, refreshToken } = await api.console("POST", "oidc", { refreshToken: session.refreshToken });
    return { ...session, token: idToken, refreshToken: refreshToken ?? session.refreshToken };
  } catch {
    return null;
  }
}

const redirectUri = () => new URL("./", document.baseURI).href.replace(/[?#].*$/, "");

const randomText = (bytes) => base64url(crypto.getRandomValues(new Uint8Array(bytes)));

function base64url(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
