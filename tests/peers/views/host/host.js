// A host: the official client and the official bridge, with a view in a frame that has the policy of the extension.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  AppBridge,
  buildAllowAttribute,
  getToolUiResourceUri,
  isToolVisibilityAppOnly,
  PostMessageTransport,
  RESOURCE_MIME_TYPE,
} from "@modelcontextprotocol/ext-apps/app-bridge";

const HOST = { name: "a-host", version: "1" };
const UI = { "io.modelcontextprotocol/ui": { mimeTypes: [RESOURCE_MIME_TYPE] } };

function policy({ connectDomains, resourceDomains = [], frameDomains, baseUriDomains } = {}) {
  const directives = {
    "default-src": [],
    "script-src": ["'unsafe-inline'", ...resourceDomains],
    "style-src": ["'unsafe-inline'", ...resourceDomains],
    "img-src": ["data:", ...resourceDomains],
    "media-src": ["data:", ...resourceDomains],
    "font-src": resourceDomains,
    "connect-src": connectDomains,
    "frame-src": frameDomains,
    "base-uri": baseUriDomains,
  };
  return Object.entries(directives)
    .map(([name, sources]) => `${name} ${sources?.join(" ") || "'none'"}`)
    .join("; ");
}

// Call a tool, and show its view; resolves when the view has the result.
window.show = async (name, args) => {
  const client = new Client(HOST, { capabilities: { extensions: UI } });
  await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", location.href)));
  const { tools } = await client.listTools();
  const uri = getToolUiResourceUri(tools.find((tool) => tool.name === name));
  const [{ text, mimeType, _meta }] = (await client.readResource({ uri })).contents;
  if (mimeType !== RESOURCE_MIME_TYPE) throw new Error(`${uri} is ${mimeType}`);

  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts";
  frame.allow = buildAllowAttribute(_meta.ui.permissions);
  frame.style = `width: 640px; height: 40px; border: ${_meta.ui.prefersBorder ? 1 : 0}px solid silver`;
  document.body.append(frame);
  const bridge = new AppBridge(client, HOST, { serverTools: {} }, { hostContext: { theme: "light" } });
  bridge.onsizechange = ({ height }) => (frame.style.height = `${height}px`);
  const initialized = new Promise((resolve) => (bridge.oninitialized = resolve));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  const head = `<meta http-equiv="Content-Security-Policy" content="${policy(_meta.ui.csp)}">`;
  frame.srcdoc = text.replace(/<!doctype html>/i, (start) => start + head);
  await initialized;
  await bridge.sendToolInput({ arguments: args });
  await bridge.sendToolResult(await client.callTool({ name, arguments: args }));
  const hidden = tools.filter(isToolVisibilityAppOnly).map((tool) => tool.name);
  return { extensions: client.getServerCapabilities().extensions, allow: frame.allow, hidden };
};
