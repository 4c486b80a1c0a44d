// Drives a server with the official TypeScript client of today; prints what it saw as JSON.
//
// Each line of stdin is a list in JSON: MODE, and a URL or a COMMAND with its ARGUMENTs.
//
// MODE is "auto" or a protocol revision.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Inbox, answers, capabilities, comeBack, drive, forAll } from "./drive.mjs";

function negotiation(mode) {
  if (mode === "auto") return { versionNegotiation: { mode: "auto" } };
  if (mode >= "2026") return { versionNegotiation: { mode: { pin: mode } } };
  return { supportedProtocolVersions: [mode] };
}

await forAll(async (mode, command, ...args) => {
  const client = new Client({ name: "typescript", version: "2" }, { capabilities, ...negotiation(mode) });
  client.setRequestHandler("elicitation/create", answers.elicit);
  client.setRequestHandler("sampling/createMessage", answers.sample);
  client.setRequestHandler("roots/list", answers.roots);
  const arrived = { logged: [], updated: new Inbox(), listed: new Inbox() };
  client.setNotificationHandler("notifications/message", ({ params }) => {
    arrived.logged.push([params.level, params.logger ?? null, params.data]);
  });
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
    arrived.updated.put(params.uri);
  });
  client.setNotificationHandler("notifications/tools/list_changed", () => {
    arrived.listed.put("tools");
  });
  const transport = command.startsWith("http:")
    ? new StreamableHTTPClientTransport(new URL(command))
    : new StdioClientTransport({ command, args });
  await client.connect(transport);
  const callTool = (params, options) => client.callTool(params, options);
  if (process.env.COME_BACK) return comeBack(client, callTool, arrived);
  return drive(client, callTool, arrived, client.getNegotiatedProtocolVersion());
});
