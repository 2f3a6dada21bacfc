// The parts of a kubeconfig that a page can use: tokens, and tenants named by server URLs.
import { HOME } from "./routes.js";

/**
 * Returns the contexts of a decoded kubeconfig: `[{name, server, tenant, token, problem, current}]`. `problem` says why a page
 * cannot use the context; it is empty if it can.
 */
export function contextsOf(config) {
  if (typeof config !== "object" || config === null || !Array.isArray(config.contexts)) return [];
  const named = (list, name) => (Array.isArray(list) ? list : []).find((one) => one?.name === name);
  return config.contexts.map((entry) => {
    const cluster = named(config.clusters, entry?.context?.cluster)?.cluster ?? {};
    const user = named(config.users, entry?.context?.user)?.user ?? {};
    const server = String(cluster.server ?? "");
    return {
      name: String(entry?.name ?? ""),
      server,
      tenant: tenantOfServer(server),
      token: typeof user.token === "string" ? user.token : "",
      problem: problemOf(user),
      current: entry?.name === config["current-context"],
    };
  });
}

/** Returns "acme" for `https://host:6443/clusters/acme`. */
export function tenantOfServer(server) {
  const found = /^https?:\/\/[^/]+\/clusters\/([^/?#]+)/.exec(server);
  return found ? decodeURIComponent(found[1]) : HOME;
}

/** Returns host and port, as in `location.host`; empty if it is not a URL. */
export function hostOfServer(server) {
  try {
    return new URL(server).host;
  } catch {
    return "";
  }
}

function problemOf(user) {
  if (typeof user.token === "string" && user.token) return "";
  if (user["client-certificate-data"] || user["client-certificate"]) {
    return "This user signs in with a client certificate, which a page cannot use. Make a token for the same user: " +
      "registry token create, or kubectl create token.";
  }
  if (user.exec || user["auth-provider"]) {
    return "This user's token is made by a program on your machine, which a page cannot run. Run the program, and paste its token.";
  }
  if (user.tokenFile) return "This user's token is in a file on your machine. Paste the content of the file as the token.";
  if (user.username) return "This user has a name and a password, which this server does not accept.";
  return "This user has no token.";
}
