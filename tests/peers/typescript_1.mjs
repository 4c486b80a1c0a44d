// Drives a server with the official TypeScript client of the handshake era; prints JSON.
//
// Each line of stdin is a list in JSON: REVISION, and a URL or a COMMAND with its ARGUMENTs.
//
// A URL that ends in /sse is spoken to over the transport of 2024-11-05.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { Inbox, answers, capabilities, comeBack, drive, forAll } from "./drive.mjs";

function connection(command, args) {
  if (command.endsWith("/sse")) return new SSEClientTransport(new URL(command));
  if (command.startsWith("http:")) return new StreamableHTTPClientTransport(new URL(command));
  return new StdioClientTransport({ command, args });
}

await forAll(async (revision, command, ...args) => {
  const transport = connection(command, args);
  let negotiated;

  // The client offers its newest in every handshake; there is no setting for it.
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === "initialize") message.params.protocolVersion = revision;
    return send(message, options);
  };
  const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    negotiated = version;
    setProtocolVersion?.(version);
  };

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
  await client.connect(transport);
  const callTool = (params, options) => client.callTool(params, undefined, options);
  if (process.env.COME_BACK) return comeBack(client, callTool, arrived);
  return drive(client, callTool, arrived, negotiated);
});
