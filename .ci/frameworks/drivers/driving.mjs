// What all drivers in JavaScript have in common; see driving.py.

import { readFileSync } from "node:fs";

export const ADD = { a: 2, b: 40 };
export const BOOK = { guests: [{ name: "Ann", age: 7 }, { name: "Bob" }], nights: 2 };
export const LOCATE = { city: "Lisbon" };
export const REFUSE = { reason: "not today" };
export const COUNT = { to: 2 };

export const server = process.argv.slice(2);
export const url = server[0].startsWith("http") ? server[0] : null;

const WAIT = 40_000;

/** What a client showed. `name` is of the package whose version it is. */
export class Report {
  constructor(name) {
    const file = new URL(`node_modules/${name}/package.json`, import.meta.url);
    this.values = { version: JSON.parse(readFileSync(file, "utf8")).version };
  }

  /** Tries one thing; an exception is what was shown then. */
  async note(key, action) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`nothing came in ${WAIT} ms`)), WAIT);
    });
    try {
      this.values[key] = await Promise.race([action(), late]);
    } catch (error) {
      this.values[key] = { raised: String(error) };
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends with the line of JSON, on a line of its own whatever was printed before. */
  print() {
    console.log("\n" + JSON.stringify(this.values));
  }
}
