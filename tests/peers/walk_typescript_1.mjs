// Walks with the official TypeScript client of the handshake era; see walk.mjs.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { UnauthorizedError, auth } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { walkToAll } from "./walk.mjs";

await walkToAll({
  newClient: () => new Client({ name: "walk", version: "1" }),
  StreamableHTTPClientTransport,
  UnauthorizedError,
  finish: (transport, fields) => transport.finishAuth(fields.get("code")),
  // It refreshes the token that has too few scopes, and gets another one that has as few.
  logIn: async (provider, serverUrl, scope) => {
    provider.saveTokens(undefined);
    await auth(provider, { serverUrl, scope });
    await auth(provider, { serverUrl, scope, authorizationCode: provider.returned.get("code") });
  },
});
