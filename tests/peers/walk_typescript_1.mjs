// Walks with the official TypeScript client of the handshake era; see walk.mjs.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { UnauthorizedError, auth } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Provider, walk, walkToAll } from "./walk.mjs";

await walkToAll((url, rotate) => {
  const provider = new Provider();
  return walk({
    provider,
    rotate,
    UnauthorizedError,
    connect: () => [
      new Client({ name: "walk", version: "1" }),
      new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }),
    ],
    finish: (transport, fields) => transport.finishAuth(fields.get("code")),
    // It refreshes the token that has too few scopes, and gets another one that has as few.
    logIn: async (scope) => {
      provider.saveTokens(undefined);
      await auth(provider, { serverUrl: url, scope });
      await auth(provider, { serverUrl: url, scope, authorizationCode: provider.returned.get("code") });
    },
  });
});
