// Sorts and filters tables, makes long ones when they are asked for, and unfolds the parts that links lead into.
"use strict";

const SCALE = {
  ns: 1, us: 1e3, ms: 1e6, s: 1e9, B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
  "kop/s": 1e3, "Mop/s": 1e6, "Gop/s": 1e9, "MB/s": 1e-3, "GB/s": 1, "TB/s": 1e3, "GFLOP/s": 1, "TFLOP/s": 1e3,
};

/** The number that a cell begins with, in its smallest unit; NaN where it begins with none. */
function magnitude(text) {
  const found = /^\s*(-?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([A-Za-z/]*)/.exec(text);
  return found ? Number(found[1].replaceAll(",", "")) * (SCALE[found[2]] ?? 1) : NaN;
}

/** Negative where `first` comes before `second`: numbers before words, by magnitude; words by their letters. */
function order(first, second) {
  const [a, b] = [magnitude(first), magnitude(second)];
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b) || first.localeCompare(second);
  return a - b;
}

/** Negative where `first` comes before `second` in a column that is sorted up or down; empty cells come last in both. */
function compare(first, second, up) {
  const empty = !first.trim() - !second.trim();
  return empty || (up ? order(first, second) : order(second, first));
}

/** Marks a heading as the one that its table is sorted by, and says whether upwards. */
function turned(heading) {
  const up = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  return up;
}

function sort(table, heading) {
  const column = heading.cellIndex, up = turned(heading), body = table.tBodies[0];
  const text = (row) => row.cells[column].textContent;
  body.append(...[...body.rows].sort((a, b) => compare(text(a), text(b), up)));
}

for (const table of document.querySelectorAll("table.sortable")) {
  if (table.tBodies[0].rows.length < 3) continue;
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(table, heading));
    heading.append(button);
  }
}

// Long tables: their rows are one compressed block, of which each is made when it comes in sight.
const FIRST_ROWS = 200; // of a table, until all are asked for
let blocks; // a promise of the rows of all tables

function allRows() {
  blocks ??= (async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("rows").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  })();
  return blocks;
}

/** A new element with attributes and children; a child that is text stays text. */
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const textOf = (cell) => (typeof cell === "string" ? cell : [cell.text, ...(cell.more ?? [])].join(" "));

function shown(cell) {
  if (typeof cell === "string") return [cell];
  return [
    cell.text,
    ...(cell.note ? [" ", element("sup", {}, cell.note)] : []),
    ...(cell.more ?? []).map((text) => element("small", {}, text)),
    ...(cell.detail ? [element("small", { class: "more" }, cell.detail)] : []),
  ];
}

function rowElement(row, columns) {
  return element("tr", {}, ...row.map((cell, column) => (column === 0 && textOf(cell)
    ? element("th", { scope: "row" }, ...shown(cell))
    : element("td", { class: [columns[column][1] ? "number" : "", cell.kind ?? ""].join(" ").trim() }, ...shown(cell)))));
}

/** Makes the table of a place once; its rows are those with all `words`, the first of them until all are asked for. */
class LongTable {
  constructor(place, { columns, groups }) {
    this.columns = columns;
    this.groups = groups.map(([name, rows]) => [name, rows.map((row) => ({ row, text: row.map(textOf).join(" ").toLowerCase() }))]);
    this.most = FIRST_ROWS;
    const caption = place.dataset.caption;
    const filter = element("input", { type: "search", placeholder: "Filter rows by words", "aria-label": `Filter ${caption}` });
    filter.addEventListener("input", () => this.show());
    this.filter = filter;
    this.status = element("span", { class: "muted", role: "status" });
    this.all = element("button", { type: "button" });
    this.all.addEventListener("click", () => { this.most = Infinity; this.show(); });
    const headings = columns.map(([name, isNumber], column) => {
      const button = element("button", { type: "button" }, name);
      const heading = element("th", { scope: "col", class: isNumber && "number" }, button);
      button.addEventListener("click", () => { this.sort(heading, column); this.show(); });
      return heading;
    });
    this.table = element("table", { class: place.dataset.kind }, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...headings)));
    const scroll = element("div", { class: `scroll ${place.className}`, tabindex: "0", role: "group", "aria-label": caption }, this.table);
    place.replaceChildren(element("p", { class: "filter" }, filter, " ", this.status, " ", this.all), scroll);
  }

  sort(heading, column) {
    const up = turned(heading);
    const text = ({ row }) => textOf(row[column]);
    for (const [, rows] of this.groups) rows.sort((a, b) => compare(text(a), text(b), up));
  }

  matching() {
    const words = wordsOf(this.filter.value);
    const left = this.groups.map(([name, rows]) => [name, rows.filter(({ text }) => words.every((word) => text.includes(word)))]);
    return left.filter(([, rows]) => rows.length);
  }

  show() {
    const left = this.matching();
    const count = left.reduce((sum, [, rows]) => sum + rows.length, 0);
    let room = this.most;
    const bodies = left.map(([name, rows]) => {
      const some = rows.slice(0, room);
      room -= some.length;
      const title = name && element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: this.columns.length }, name));
      return element("tbody", {}, ...(title && some.length ? [title] : []), ...some.map(({ row }) => rowElement(row, this.columns)));
    });
    for (const body of [...this.table.tBodies]) body.remove();
    this.table.append(...bodies);
    const every = this.groups.reduce((sum, [, rows]) => sum + rows.length, 0);
    this.status.textContent = `${Math.min(count, this.most).toLocaleString("en")} of ${every.toLocaleString("en")} rows`;
    this.all.textContent = `Show all ${count.toLocaleString("en")}`;
    this.all.hidden = count <= this.most;
    return count;
  }
}

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
const made = new Map(); // of each place the promise of its table

function longTable(place) {
  if (!made.has(place)) made.set(place, allRows().then((tables) => new LongTable(place, tables[Number(place.dataset.rows)])));
  return made.get(place);
}

async function showVisible() {
  for (const place of document.querySelectorAll("[data-rows]")) {
    if (place.checkVisibility() && !made.has(place)) (await longTable(place)).show();
  }
}
document.addEventListener("toggle", showVisible, true);
showVisible();

const points = document.getElementById("points");
if (points) {
  const name = "Filter rows by words, such as triad double";
  const input = element("input", { type: "search", placeholder: name, "aria-label": name });
  points.querySelector(".toggle").after(element("p", { class: "filter" }, input));
  const filter = async () => {
    const words = wordsOf(input.value);
    for (const place of points.querySelectorAll("[data-rows]")) {
      const table = await longTable(place), part = place.closest("details"), title = part.firstElementChild.textContent.toLowerCase();
      table.filter.value = words.filter((word) => !title.includes(word)).join(" ");
      const left = table.show();
      part.hidden = left === 0;
      part.open = words.length > 0 && left > 0;
    }
  };
  let waiting = 0;
  input.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 150);
  });
}

// Groups of rows of the devices compared fold; of the cells that tell more one is a tab stop, and arrows lead to the others.
const devices = document.querySelector(".devices table");
if (devices) {
  for (const body of devices.tBodies) {
    const heading = body.querySelector(".group th"), button = document.createElement("button");
    const fold = (folded) => {
      body.classList.toggle("folded", folded);
      button.setAttribute("aria-expanded", String(!folded));
      button.title = folded ? `${body.rows.length - 1} rows` : "";
    };
    button.append(...heading.childNodes);
    button.addEventListener("click", () => fold(!body.classList.contains("folded")));
    heading.append(button);
    fold("folded" in body.dataset);
  }
  const cells = [...devices.querySelectorAll("[popovertarget]")];
  let stop = cells[0];
  for (const cell of cells) cell.tabIndex = cell === stop ? 0 : -1;
  const seen = (cell) => cell.checkVisibility();
  devices.addEventListener("focusin", ({ target }) => {
    if (!cells.includes(target)) return;
    stop.tabIndex = -1;
    stop = target;
    stop.tabIndex = 0;
  });
  devices.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!by || event.target !== stop) return;
    event.preventDefault();
    const here = stop.getBoundingClientRect();
    const ahead = cells.filter(seen).map((cell) => ({ cell, box: cell.getBoundingClientRect() }))
      .map(({ cell, box }) => ({ cell, x: box.right - here.right, y: box.top - here.top }))
      .filter(({ x, y }) => (by[0] ? Math.abs(y) < here.height / 2 && x * by[0] > 1 : y * by[1] > 1 && Math.abs(x) < here.width / 2));
    ahead.sort((a, b) => Math.abs(a.x) + Math.abs(a.y) - Math.abs(b.x) - Math.abs(b.y));
    ahead[0]?.cell.focus();
  });
  devices.addEventListener("pointerover", ({ target }) => {
    const cell = target.closest("[popovertarget]");
    if (cell) cell.title = cell.nextElementSibling.textContent;
  });
}

const contents = document.querySelector("#contents > details");
const wide = matchMedia("(min-width: 1100px)");
const show = () => { contents.open = wide.matches; };
wide.addEventListener("change", show);
show();
contents.addEventListener("click", (event) => {
  if (event.target.closest("a") && !wide.matches) contents.open = false;
});

function unfold() {
  let found = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const target = found;
  for (; found; found = found.parentElement) if (found.tagName === "DETAILS") found.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();
