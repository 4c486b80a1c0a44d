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
 * walkTo: (url, rotate) => walks to one, by `walk`; returns a report.
 */
export async function walkToAll(walkTo) {
  const walks = [];
  for (let place = 0; place < pairs.length; place += 2) {
    const failed = (error) => ({ failed: String(error?.stack ?? error) });
    walks.push(walkTo(pairs[place], pairs[place + 1]).catch(failed));
  }
  console.log(JSON.stringify(await Promise.all(walks)));
}

/** The user and the memory of a client: it is sent to a browser, and comes back with a code. */
export class Provider {
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

/**
 * Walks; returns a report.
 *
 * provider: of the transport.
 * rotate: see above.
 * connect: () => [client, transport], connected or not; an error says that the user has to log in.
 * UnauthorizedError: that error.
 * finish: (transport, URLSearchParams) => logged in with what the user has come back with.
 * logIn: (scope) => by hand, where the client cannot get more scopes by itself.
 */
export async function walk({ provider, rotate, connect, UnauthorizedError, finish, logIn }) {
  const report = {};
  let [client, transport] = connect();
  // Whoever uses these clients has to bring the user back, and to try once more.
  const retrying = async (action) => {
    try {
      return await action();
    } catch (error) {
      if (!(error instanceof UnauthorizedError)) throw error;
      await finish(transport, provider.returned);
      return action(true);
    }
  };
  const note = async (key, action) => {
    try {
      report[key] = await retrying(action);
    } catch (error) {
      report[key] = { raised: String(error) };
    }
  };
  await retrying(async (again) => {
    if (again) [client, transport] = connect();
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
    await logIn("notes:read notes:write");
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
