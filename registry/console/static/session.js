// Who is signed in, and what was typed and not saved: in this tab only, until it is closed.
//
// sessionStorage, because a reload or the way to an issuer and back would otherwise end the session, and because it is
// neither shared with other tabs nor kept (localStorage is both). The Content-Security-Policy lets no script but ours run
// here, so a variable would be no safer. No token is ever in a URL.
import { HOME } from "./logic/routes.js";

const SESSION = "registry.session";
const DRAFT = "registry.draft:";
const SIGN_IN = "registry.sign-in";
// A browser gives a page some 5 MB.
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

/** `{text, base, at}` of what was typed at a place; `base` is the resource version that it began from. */
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

/** Without storage, or when it is full, everything works but for a reload. */
function write(key, value) {
  try {
    sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    sessionStorage.removeItem(key);
  }
}

// -- signing in at an issuer: authorization code with PKCE (RFC 7636)

/** `{issuer, authorizationEndpoint, clientId, scope}`, or null where the server names no issuer. */
export async function issuerOf(api) {
  const found = await api.console("GET", "oidc");
  return found.issuer ? found : null;
}

/** Leaves the page for the issuer's. */
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

/** If the page was opened by the issuer: its code for a session, and the URL without it. Null otherwise. */
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

/** The session with a new token of the issuer, or null where there is no way to get one without the user. */
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
