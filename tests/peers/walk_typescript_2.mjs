// Walks with the official TypeScript client of today; see walk.mjs.

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { Provider, url, walk } from "./walk.mjs";

const provider = new Provider();
await walk({
  provider,
  UnauthorizedError,
  connect: () => [
    new Client({ name: "walk", version: "2" }, { versionNegotiation: { mode: "auto" } }),
    new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }),
  ],
  finish: (transport, fields) => transport.finishAuth(fields),
});
