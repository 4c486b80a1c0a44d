// Answers queries with the search of the built site: the worker that browsers run, in Node.
// node search.js SITE QUERY… prints the pages that each query finds, the best first, as JSON.
const fs = require("node:fs");
const path = require("node:path");

const [site, ...queries] = process.argv.slice(2);
const workers = path.join(site, "assets", "javascripts", "workers");
const [worker] = fs.readdirSync(workers).filter((name) => /^search\..*\.js$/.test(name));

globalThis.self = globalThis;
let receive;
const answers = [];
globalThis.addEventListener = (_, handler) => (receive = handler);
globalThis.postMessage = (message) => answers.push(message);
require(path.join(workers, worker));

(async () => {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search", "search_index.json")));
  await receive({ data: { type: 0, data: { ...index, options: {} } } });
  const found = {};
  for (const query of queries) {
    await receive({ data: { type: 2, data: query } });
    found[query] = answers.at(-1).data.items.map(([{ location }]) => location.split("#")[0]);
  }
  console.log(JSON.stringify(found));
})();
