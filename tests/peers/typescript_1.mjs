// Drives a server with the official TypeScript client of the handshake era; prints JSON.
//
// Usage: typescript_1.mjs REVISION COMMAND [ARGUMENT ...]

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { Inbox, answers, capabilities, drive } from "./drive.mjs";

const [revision, command, ...args] = process.argv.slice(2);

/** The client offers its newest in every handshake; there is no setting for it. */
class OfferingTransport extends StdioClientTransport {
  send(message) {
    if (message.method === "initialize") message.params.protocolVersion = revision;
    return super.send(message);
  }

  setProtocolVersion(version) {
    this.negotiated = version;
  }
}

const client = new Client({ name: "typescript", version: "1" }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, answers.elicit);
client.setRequestHandler(CreateMessageRequestSchema, answers.sample);
client.setRequestHandler(ListRootsRequestSchema, answers.roots);
const arrived = { logged: [], updated: new Inbox(), listed: new Inbox() };
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
  arrived.logged.push([params.level, params.logger ?? null, params.data]);
});
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
  arrived.updated.put(params.uri);
});
client.setNotificationHandler(ToolListChangedNotificationSchema, () => {
  arrived.listed.put("tools");
});
const transport = new OfferingTransport({ command, args });
await client.connect(transport);
await drive(
  client,
  (params, options) => client.callTool(params, undefined, options),
  arrived,
  transport.negotiated,
);
