import { App } from "@modelcontextprotocol/ext-apps";
import "./counter.css";
import { shown } from "./shown.js";

const app = new App({ name: "counter", version: "1" });
const [output, button] = document.querySelectorAll("output, button");
function show({ structuredContent: { count } }) {
  output.textContent = shown(count);
  button.onclick = async () => {
    show(await app.callServerTool({ name: "add_one", arguments: { count } }));
  };
}
app.ontoolresult = show;
await app.connect();
