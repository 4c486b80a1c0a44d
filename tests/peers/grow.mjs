// Prints the lists of a growing server that the official TypeScript client notices.
//
// Usage: grow.mjs MODE COMMAND [ARGUMENT ...]

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Inbox } from "./drive.mjs";

const [mode, command, ...args] = process.argv.slice(2);
const lists = new Inbox();
const onChanged = (error, tools) => lists.put(error ? String(error) : tools.map(({ name }) => name));
const client = new Client(
  { name: "typescript", version: "2" },
  {
    listChanged: { tools: { onChanged, debounceMs: 0 } },
    ...(mode === "auto" ? { versionNegotiation: { mode } } : { supportedProtocolVersions: [mode] }),
  },
);
await client.connect(new StdioClientTransport({ command, args }));
const seen = [(await client.listTools()).tools, (await client.listResources()).resources];
for (const name of ["grow", "shrink"]) {
  await client.getPrompt({ name });
  seen.push(await lists.take());
}
seen.push((await client.listTools()).tools);
console.log(JSON.stringify(seen));
await client.close();
