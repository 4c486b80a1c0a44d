// The AI SDK: the tools of a client, and a text whose model is the SDK's mock.
//
// Its clients have no way to be told of progress.

import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as Stdio } from "@ai-sdk/mcp/mcp-stdio";
import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { ADD, BOOK, LOCATE, REFUSE, Report, server, url } from "./driving.mjs";

const [command, ...args] = server;
const report = new Report("@ai-sdk/mcp");
const client = await createMCPClient({
  transport: url ? { type: "http", url } : new Stdio({ command, args }),
});
const tools = await client.tools();

const call = (name, values) => tools[name].execute(values, { toolCallId: "1", messages: [] });
const text = async (name, values) => (await call(name, values)).content[0].text;

await report.note("tools", async () => {
  const listed = (await client.listTools()).tools;
  return Object.fromEntries(
    listed.map((tool) => [tool.name, Object.keys(tool.inputSchema.properties ?? {}).sort()]),
  );
});
await report.note("add", () => text("add", ADD));
await report.note("ready", () => text("ready", {}));
await report.note("book", () => text("book", BOOK));
await report.note("locate", async () => (await call("locate", LOCATE)).structuredContent);
await report.note("picture", async () => (await call("picture", {})).content[0].data);
await report.note("refuse", async () => {
  const result = await call("refuse", REFUSE);
  return result.isError ? result.content[0].text : null;
});
await report.note("agent", async () => {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  const model = new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      const answered = last.role === "tool" && last.content[0].output.value[0].text;
      const content = answered
        ? { type: "text", text: `It is ${answered}.` }
        : { type: "tool-call", toolCallId: "1", toolName: "add", input: JSON.stringify(ADD) };
      const unified = answered ? "stop" : "tool-calls";
      return { content: [content], finishReason: { unified }, usage, warnings: [] };
    },
  });
  const done = await generateText({ model, tools, prompt: "What is 2 + 40?", stopWhen: isStepCount(2) });
  return done.text;
});
await client.close();
report.print();
