// A certified authorization server, in which everybody is Ada and agrees to everything.
//
// Usage: oidc_provider.mjs LIFETIME [SCOPE ...]
//
// LIFETIME is that of access tokens, in seconds; the scopes are those of any resource server. Prints its issuer when it
// listens on a port that was free, and ends with its stdin.
//
// POST /rotate makes it sign with a new key; those before stay in its set of keys. GET /seen is what it
// has done for whom.

import { createServer } from "node:http";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import Provider from "oidc-provider";

const [lifetime, ...scopes] = process.argv.slice(2);

/** What it keeps, which a change of keys must not end. */
const kept = new Map();

class Adapter {
  constructor(model) {
    this.model = model;
  }
  #entries() {
    return [...kept.entries()].filter(([key]) => key.startsWith(`${this.model}:`));
  }
  #found(member, value) {
    return this.#entries().find(([, each]) => each[member] === value)?.[1];
  }
  async upsert(id, payload) {
    kept.set(`${this.model}:${id}`, payload);
  }
  async find(id) {
    return kept.get(`${this.model}:${id}`);
  }
  async findByUid(uid) {
    return this.#found("uid", uid);
  }
  async findByUserCode(userCode) {
    return this.#found("userCode", userCode);
  }
  async consume(id) {
    kept.get(`${this.model}:${id}`).consumed = Math.floor(Date.now() / 1000);
  }
  async destroy(id) {
    kept.delete(`${this.model}:${id}`);
  }
  async revokeByGrantId(grantId) {
    for (const [key, each] of this.#entries()) if (each.grantId === grantId) kept.delete(key);
  }
}

const keys = [];
const seen = [];

function rotate() {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  keys.unshift({ ...privateKey.export({ format: "jwk" }), kid: randomUUID(), alg: "ES256", use: "sig" });
}

function makeProvider(issuer) {
  const provider = new Provider(issuer, {
    adapter: Adapter,
    jwks: { keys },
    cookies: { keys: ["a key of tests"] },
    scopes: ["openid", "offline_access"],
    clientDefaults: { id_token_signed_response_alg: "ES256" },
    enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
    pkce: { required: () => true },
    ttl: {
      AccessToken: Number(lifetime),
      AuthorizationCode: 60,
      Grant: 3600,
      IdToken: 60,
      Interaction: 600,
      RefreshToken: 3600,
      Session: 3600,
    },
    issueRefreshToken: async (ctx, client) => client.grantTypeAllowed("refresh_token"),
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      revocation: { enabled: true },
      introspection: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (ctx, resource) => ({
          scope: scopes.join(" "),
          audience: resource,
          accessTokenFormat: "jwt",
          jwt: { sign: { alg: "ES256" } },
        }),
      },
    },
  });
  const note = (what) => (ctx) =>
    seen.push([ctx.oidc.client?.clientName ?? null, ctx.oidc.params?.grant_type ?? what]);
  provider.on("registration_create.success", note("registered"));
  provider.on("authorization.success", note("authorized"));
  provider.on("grant.success", note("granted"));
  provider.on("server_error", (ctx, error) => console.error(error));
  for (const kind of ["authorization", "grant", "registration_create"])
    provider.on(`${kind}.error`, (ctx, error) => console.error(error));
  return provider;
}

/** Answers for the user: who they are, and that they agree. */
async function interact(provider, request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === "login") {
    return provider.interactionFinished(request, response, { login: { accountId: "ada" } });
  }
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope, missingResourceScopes } = prompt.details;
  if (missingOIDCScope) grant.addOIDCScope(missingOIDCScope.join(" "));
  for (const [resource, missing] of Object.entries(missingResourceScopes ?? {})) {
    grant.addResourceScope(resource, missing.join(" "));
  }
  const consent = { grantId: await grant.save() };
  return provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

/** Forgets the scopes that clients register for, as a server may (RFC 7591, 2): they know the first of them only. */
async function register(provider, request, response) {
  let body = "";
  for await (const part of request) body += part;
  const { scope, ...about } = JSON.parse(body);
  request.body = about;
  provider.callback()(request, response);
}

let provider, issuer;
const server = createServer(async (request, response) => {
  const path = request.url;
  if (path === "/rotate" && request.method === "POST") {
    rotate();
    provider = makeProvider(issuer);
    response.end();
  } else if (path === "/seen") {
    response.setHeader("Content-Type", "application/json");
    response.end(JSON.stringify(seen));
  } else if (path.startsWith("/interaction/")) {
    await interact(provider, request, response);
  } else if (path === "/reg") {
    await register(provider, request, response);
  } else {
    provider.callback()(request, response);
  }
});
server.listen(0, "127.0.0.1", () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  rotate();
  provider = makeProvider(issuer);
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit());
