// What both TypeScript clients walk: from nothing to a second token.
//
// Usage: walk_typescript_N.mjs NAME BROWSER LIFETIME (URL ROTATE) ...
//
// NAME is its own; BROWSER follows the address that is added to it; URL is a server; ROTATE is posted to before the
// token, which is good for LIFETIME seconds, has run out. It walks to all servers at a time; prints what it saw at each
// as JSON, a list.

const REDIRECT = "http://127.0.0.1:49153/callback";

const [name, browser, lifetime, ...pairs] = process.argv.slice(2);

/**
 * Walks to all servers.
 *
 * newClient: () => one that is not connected.
 * StreamableHTTPClientTransport: how it connects.
 * UnauthorizedError: says that the user has to log in.
 * finish: (transport, URLSearchParams) => logged in with what the user has come back with.
 * logIn: (provider, url, scope) => by hand, where the client cannot get more scopes by itself.
 */
export async function walkToAll(own) {
  const walks = [];
  for (let place = 0; place < pairs.length; place += 2) {
    const failed = (error) => ({ failed: String(error?.stack ?? error) });
    walks.push(walk(pairs[place], pairs[place + 1], own).catch(failed));
  }
  console.log(JSON.stringify(await Promise.all(walks)));
}

/** The user and the memory of a client: it is sent to a browser, and comes back with a code. */
class Provider {
  asked = [];
  redirectUrl = REDIRECT;
  clientMetadata = {
    client_name: name,
    redirect_uris: [REDIRECT],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  #kept = {};

  clientInformation() {
    return this.#kept.client;
  }
  saveClientInformation(client) {
    this.#kept.client = client;
  }
  tokens() {
    return this.#kept.tokens;
  }
  saveTokens(tokens) {
    this.#kept.tokens = tokens;
  }
  codeVerifier() {
    return this.#kept.verifier;
  }
  saveCodeVerifier(verifier) {
    this.#kept.verifier = verifier;
  }
  discoveryState() {
    return this.#kept.discovery;
  }
  saveDiscoveryState(state) {
    this.#kept.discovery = state;
  }
  state() {
    this.#kept.state = crypto.randomUUID();
    return this.#kept.state;
  }
  async redirectToAuthorization(address) {
    this.asked.push(address.searchParams.get("scope") ?? "");
    const query = new URLSearchParams({ who: name, url: address.href, end: REDIRECT });
    const answer = await fetch(`${browser}?${query}`);
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    this.returned = new URL(text).searchParams;
    if (this.returned.get("state") !== this.#kept.state) throw new Error("another state");
  }
}

/** Walks to one server; returns a report. */
async function walk(url, rotate, { newClient, StreamableHTTPClientTransport, UnauthorizedError, finish, logIn }) {
  const report = {};
  const provider = new Provider();
  let client, transport;
  // Whoever uses these clients has to bring the user back, and to try once more.
  const retrying = async (action) => {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      await finish(transport, provider.returned);
      return action();
    }
  };
  const note = async (key, action) => {
    try {
      report[key] = await retrying(action);
    } catch (error) {
      report[key] = { raised: String(error) };
    }
  };
  await retrying(async () => {
    client = newClient();
    transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
    await client.connect(transport);
  });
  const names = async () => (await client.listTools()).tools.map((tool) => tool.name);
  const call = async (name) => {
    const result = await client.callTool({ name, arguments: {} });
    return result.content[0].text;
  };
  report.revision = transport.protocolVersion ?? null;
  await note("listed", names);
  await note("who", () => call("who"));
  await note("written", () => call("write"));
  if (logIn && report.written.raised) {
    report.alone = report.written;
    await logIn(provider, url, "notes:read notes:write");
    await note("written", () => call("write"));
  }
  await note("listed_then", names);
  const first = provider.tokens().access_token;
  await fetch(rotate, { method: "POST" });
  await new Promise((resolve) => setTimeout(resolve, 1000 * lifetime));
  await note("who_then", () => call("who"));
  report.refreshed = provider.tokens().access_token !== first;
  report.asked = provider.asked;
  await client.close();
  return report;
}
