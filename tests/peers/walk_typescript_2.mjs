// Walks with the official TypeScript client of today; see walk.mjs.

import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { walkToAll } from "./walk.mjs";

await walkToAll({
  newClient: () => new Client({ name: "walk", version: "2" }, { versionNegotiation: { mode: "auto" } }),
  StreamableHTTPClientTransport,
  UnauthorizedError,
  finish: (transport, fields) => transport.finishAuth(fields),
});
