// Sorts and filters tables, and unfolds parts for print and for links into them. Without it the page has the same content.
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

function sort(table, heading) {
  const column = heading.cellIndex, up = heading.getAttribute("aria-sort") !== "ascending", body = table.tBodies[0];
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const text = (row) => row.cells[column].textContent;
  body.append(...[...body.rows].sort((a, b) => {
    const empty = !text(a).trim() - !text(b).trim(); // empty cells come last in both directions
    return empty || (up ? order(text(a), text(b)) : order(text(b), text(a)));
  }));
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

const points = document.getElementById("points");
if (points) {
  const input = document.createElement("input");
  const name = "Filter rows by words, such as triad double";
  Object.assign(input, { type: "search", placeholder: name, id: "filter" });
  input.setAttribute("aria-label", name);
  points.querySelector(".toggle").after(input);
  const parts = [...points.querySelectorAll(":scope > details")].map((part) => ({
    part,
    rows: [...part.querySelectorAll("tbody tr")].map((row) => ({
      row,
      text: `${part.firstElementChild.textContent} ${row.textContent}`.toLowerCase(),
    })),
  }));
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { part, rows } of parts) {
      let left = 0;
      for (const { row, text } of rows) {
        row.hidden = !words.every((word) => text.includes(word));
        left += !row.hidden;
      }
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

let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("main details:not([open])")];
  for (const part of folded) part.open = true;
});
addEventListener("afterprint", () => {
  for (const part of folded) part.open = false;
});
