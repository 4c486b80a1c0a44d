// What both TypeScript clients do, once they are connected.

import { createInterface } from "node:readline";
import { z } from "zod";

const WAIT = 20_000;
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

/** Things that arrive, and can be waited for. */
export class Inbox {
  #items = [];
  #takers = [];

  put(item) {
    const taker = this.#takers.shift();
    if (taker) taker(item);
    else this.#items.push(item);
  }

  empty() {
    this.#items = [];
  }

  take() {
    return new Promise((resolve, reject) => {
      if (this.#items.length > 0) return resolve(this.#items.shift());
      const timer = setTimeout(() => reject(new Error("nothing arrived")), WAIT);
      this.#takers.push((item) => {
        clearTimeout(timer);
        resolve(item);
      });
    });
  }
}

/** What both clients declare that they can be asked. */
export const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };

/** A form's first choices, and something of the right type for the rest. */
function filledIn({ properties }) {
  const some = { string: "Lisbon", number: 38.7 };
  const fields = Object.entries(properties);
  return Object.fromEntries(
    fields.map(([name, field]) => [name, field.enum?.[0] ?? some[field.type]]),
  );
}

/** The result of a request of an extension. */
const definition = z.object({ term: z.string(), text: z.string() });

/** What they answer. */
export const answers = {
  elicit: ({ params }) => ({ action: "accept", content: filledIn(params.requestedSchema) }),
  sample: () => ({
    role: "assistant",
    content: { type: "text", text: "hot leaf water" },
    model: "a poet",
  }),
  roots: () => ({ roots: [{ uri: "file:///tea" }] }),
};

let lines; // of stdin

/** Waits for a line on stdin, which says that the server has been started anew. */
async function restarted() {
  console.log(JSON.stringify("connected"));
  await lines.next();
}

/**
 * Prints a report as JSON for each line on stdin, a list of arguments in JSON.
 *
 * report: (...arguments) => an object.
 */
export async function forAll(report) {
  lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for (let next = await lines.next(); !next.done; next = await lines.next()) {
    console.log(JSON.stringify(await report(...JSON.parse(next.value))));
  }
}

/** Goes on with a session when the server has been started anew; returns what it saw. */
export async function comeBack(client, callTool, { listed }) {
  client.onerror = (error) => console.error(String(error));
  const options = { timeout: WAIT };
  // Its stream is there at some time; what is announced before that is lost.
  const hears = async () => {
    listed.empty();
    let heard = false;
    const told = listed.take().then(() => (heard = true));
    while (!heard) {
      await callTool({ name: "learn", arguments: { name: `new_${crypto.randomUUID()}` } }, options);
      await Promise.race([told, new Promise((resolve) => setTimeout(resolve, 100))]);
    }
    return heard;
  };
  // A stream that could not be opened for the first time is not opened again.
  await hears();
  await restarted();
  const added = await callTool({ name: "add", arguments: { a: 2, b: 40 } }, options);
  const heard = await hears();
  await client.close();
  return { answer: added.content[0].text, heard };
}

/**
 * Tries everything; returns a report.
 *
 * client: connected.
 * callTool: (params, options) => result; the clients disagree about the arguments.
 * arrived: { logged: array, updated: Inbox, listed: Inbox }, filled by the client's handlers.
 * revision: what was negotiated.
 */
export async function drive(client, callTool, { logged, updated, listed }, revision) {
  const modern = revision >= "2026";
  const progress = [];
  const server = client.getServerVersion();
  const report = {
    revision,
    server: server ? [server.name, server.version] : null,
    instructions: client.getInstructions() ?? null,
    capabilities: Object.keys(client.getServerCapabilities() ?? {}).sort(),
  };

  const options = { timeout: WAIT };
  const note = async (key, action) => {
    try {
      report[key] = await action();
    } catch (error) {
      report[key] =
        typeof error.code === "number" ? { error: error.code } : { raised: String(error) };
    }
  };
  const call = async (name, values = {}, meta = undefined, more = {}) => {
    const params = { name, arguments: values };
    if (meta) params._meta = meta;
    const result = await callTool(params, { ...options, ...more });
    return {
      content: result.content,
      structured: result.structuredContent ?? null,
      is_error: result.isError ?? false,
    };
  };
  const read = async (uri) => (await client.readResource({ uri }, options)).contents;
  const prompt = async (values) =>
    (await client.getPrompt({ name: "travel", arguments: values }, options)).messages;
  const complete = async (ref, name, value, known = undefined) => {
    const params = { ref, argument: { name, value } };
    if (known) params.context = { arguments: known };
    return (await client.complete(params, options)).completion.values;
  };

  await note("tools", async () => {
    const { tools } = await client.listTools({}, options);
    return Object.fromEntries(tools.map((tool) => [tool.name, tool.description]));
  });
  await note("resources", async () =>
    (await client.listResources({}, options)).resources.map((each) => each.uri),
  );
  await note("templates", async () =>
    (await client.listResourceTemplates({}, options)).resourceTemplates.map(
      (each) => each.uriTemplate,
    ),
  );
  await note("prompts", async () => {
    const { prompts } = await client.listPrompts({}, options);
    const names = (each) => (each.arguments ?? []).map((part) => part.name);
    return Object.fromEntries(prompts.map((each) => [each.name, names(each)]));
  });
  await note("sync", () => call("add", { a: 2, b: 40 }));
  await note("async", () => call("shout", { text: "hey" }));
  await note("structured", () => call("locate", { city: "Lisbon" }));
  await note("wrapped", () => call("everywhere"));
  await note("picture", () => call("picture"));
  await note("refused", () => call("refuse", { reason: "not today" }));
  await note("exploded", () => call("explode"));
  await note("bad_arguments", () => call("add", { a: "two" }));
  await note("unknown_tool", () => call("nothing"));
  await note("decided", () => call("decide"));
  await note("thought", () => call("think"));
  await note("looked", () => call("look"));
  await note("traced", () => call("traced"));
  await note("text", () => read("notes://today"));
  await note("blob", () => read("notes://pixel"));
  await note("templated", () => read("notes://tomorrow/text"));
  await note("unknown_resource", () => read("other://never"));
  await note("prompt", () => prompt({ country: "Norway", city: "Oslo", days: "2" }));
  await note("incomplete_prompt", () => prompt({ country: "Norway" }));
  const byPrompt = { type: "ref/prompt", name: "travel" };
  const byTemplate = { type: "ref/resource", uri: "notes://{day}/text" };
  await note("complete_literal", () => complete(byPrompt, "country", "N"));
  await note("complete_context", () => complete(byPrompt, "city", "", { country: "Norway" }));
  await note("complete_template", () => complete(byTemplate, "day", "tom"));
  const define = (term) =>
    client.request({ method: "glossary/define", params: { term } }, definition, options);
  await note("defined", () => define("jitter"));
  await note("undefined", () => define("nothing"));
  await note("counted", async () => {
    if (!modern) await client.setLoggingLevel("info", options);
    const countedAll = new Inbox();
    const onprogress = (each) => {
      progress.push([each.progress, each.total ?? null, each.message ?? null]);
      if (each.progress === each.total) countedAll.put(true);
    };
    const meta = modern ? { [LOG_LEVEL]: "info" } : undefined;
    const counting = call("count", { to: 2 }, meta, { onprogress });
    await countedAll.take();
    await call("go_on");
    return counting;
  });
  await note("resumed", () => call("hang_up"));
  report.progress = progress;
  report.logged = logged;
  await note("updated", async () => {
    const changes = modern && (await client.listen({ resourceSubscriptions: ["notes://today"] }));
    if (!modern) await client.subscribeResource({ uri: "notes://today" }, options);
    await call("write", { text: "drink milk" });
    const uri = await updated.take();
    if (changes) await changes.close();
    return uri;
  });
  await note("grown", async () => {
    const changes = modern && (await client.listen({ toolsListChanged: true }));
    await call("learn", { name: "new" });
    await listed.take();
    if (changes) await changes.close();
    return call("new");
  });
  await client.close();
  return report;
}
