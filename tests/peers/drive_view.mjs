// Shows the view of a tool in Chromium, clicks its buttons, and prints what stands in it after each.
import { chromium } from "playwright-core";

const { browser: executablePath, url, tool, args, steps, shots } = JSON.parse(process.argv[2]);
const options = ["no-sandbox", "disable-gpu", "disable-quic", "no-first-run"];
options.push("disable-background-networking", "disable-component-update", "disable-sync");
const browser = await chromium.launch({ executablePath, args: options.map((each) => `--${each}`) });
const faults = [];
try {
  const page = await browser.newPage({ viewport: { width: 720, height: 400 } });
  page.setDefaultTimeout(20_000);
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (said) => {
    if (["error", "warning"].includes(said.type())) faults.push(said.text());
  });
  await page.goto(url);
  const found = await page.evaluate(([tool, args]) => window.show(tool, args), [tool, args]);
  const view = page.frameLocator("iframe");
  const texts = [];
  for (const [number, [click, until]] of steps.entries()) {
    if (click) await view.getByRole("button", { name: click }).click();
    await view.getByText(until).first().waitFor();
    await page.screenshot({ path: `${shots}/${number}.png` });
    texts.push(await view.locator("body").innerText());
  }
  console.log(JSON.stringify({ ...found, texts, faults }));
} finally {
  await browser.close();
}
