// Checks a report's page in a browser: accessibility by axe-core, requests, console, text without scripts, and overflow.
//
// Usage: node scripts/check_page.mjs PAGE.html [FOLDER]     (FOLDER: where screenshots and a PDF are written)
// Needs the npm packages axe-core and puppeteer-core in the current folder's node_modules (npm install axe-core puppeteer-core)
// and Chromium: the environment variable CHROMIUM has its path where that is not /usr/bin/chromium. Exit status 1: a finding.
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

const WIDTHS = [1400, 800, 390]; // CSS pixels: a desk, a tablet, a phone
const SCHEMES = ["light", "dark"];
const SERIOUS = new Set(["serious", "critical"]);
const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];

const [page, folder] = process.argv.slice(2);
if (!page) throw new Error("usage: node check_page.mjs PAGE.html [FOLDER]");
const require = createRequire(path.join(process.cwd(), "package.json"));
const { default: puppeteer } = await import(pathToFileURL(require.resolve("puppeteer-core")).href);
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const address = pathToFileURL(path.resolve(page)).href;
if (folder) fs.mkdirSync(folder, { recursive: true });

const profile = fs.mkdtempSync(path.join(os.tmpdir(), "check-page-"));
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, protocolTimeout: 600_000,
  userDataDir: profile, args: ARGUMENTS,
});
const findings = [];

async function open(width, scheme, scripts = true) {
  const tab = await browser.newPage();
  await tab.setBypassCSP(scripts === "axe"); // the page's policy would not let axe run
  await tab.setJavaScriptEnabled(scripts !== false);
  await tab.setViewport({ width, height: 900 });
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  tab.on("request", (request) => { if (request.url() !== address) findings.push(`requested ${request.url()}`); });
  tab.on("console", (message) => findings.push(`console: ${message.text()}`));
  tab.on("pageerror", (error) => findings.push(`script: ${error}`));
  await tab.goto(address);
  return tab;
}

try {
  const texts = [];
  for (const scripts of [true, false]) {
    const tab = await open(WIDTHS[0], "light", scripts);
    texts.push(await tab.evaluate(() => document.body.textContent));
    await tab.close();
  }
  if (texts[0] !== texts[1]) findings.push("the text differs without scripts");
  for (const width of WIDTHS) for (const scheme of SCHEMES) {
    const tab = await open(width, scheme, "axe");
    const name = `${width}-${scheme}`;
    if (folder) await tab.screenshot({ path: path.join(folder, `${name}.png`) });
    for (const all of [false, true]) {
      if (all) await tab.evaluate(() => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
      const wide = await tab.evaluate(() => document.documentElement.scrollWidth);
      if (wide > width) findings.push(`${name}: the page is ${wide} px wide${all ? ", unfolded" : ""}`);
    }
    await tab.evaluate(axe);
    const options = { resultTypes: ["violations"], preload: false, runOnly: TAGS };
    const found = await tab.evaluate((o) => globalThis.axe.run(document, o).then((result) => result.violations), options);
    for (const { id, impact, nodes } of found) {
      const text = `${name}: ${impact} ${id}, ${nodes.length} times, first ${nodes[0].html.slice(0, 160)}`;
      if (SERIOUS.has(impact)) findings.push(text);
      else console.log(text);
    }
    await tab.close();
  }
  if (folder) {
    const tab = await open(WIDTHS[0], "light", false);
    await tab.pdf({ path: path.join(folder, "print.pdf"), format: "A4", timeout: 600_000 });
  }
} finally {
  await browser.close();
  fs.rmSync(profile, { recursive: true, force: true });
}
for (const finding of findings) console.error(finding);
console.log(findings.length ? `${findings.length} findings` : "no findings");
process.exitCode = findings.length ? 1 : 0;
