// Walks with the official TypeScript client of today; see walk.mjs.

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { Provider, walk, walkToAll } from "./walk.mjs";

await walkToAll((url, rotate) => {
  const provider = new Provider();
  return walk({
    provider,
    rotate,
    UnauthorizedError,
    connect: () => [
      new Client({ name: "walk", version: "2" }, { versionNegotiation: { mode: "auto" } }),
      new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }),
    ],
    finish: (transport, fields) => transport.finishAuth(fields),
  });
});
